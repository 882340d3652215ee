//! Threads that make steps ahead, in order, and where their results wait for whoever takes them.
//!
//! A step is begun by whichever thread is free, while fewer than `ahead` are begun or ready, and while those fit into `bytes`. A step that
//! is ready waits under its number: who was quicker doesn't matter.
//!
//! All there is to know is in [`State`], behind one lock that is held for moments only, and never while something is made, waited for or
//! freed. So [`Pipeline::stop`] and dropping a pipeline don't wait, and may come from anywhere.
//!
//! A forked child has a pipeline's memory but none of its threads, and its lock may be held for ever. So a pipeline is its process's: in
//! another one it counts as stopped, and nothing of it is touched or freed there.

mod state;
#[cfg(test)]
mod tests;

use std::process;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::{Error, Result, caught};
use crate::plan::{Made, Plan};
use state::{State, Wanted};

/// How much is made ahead.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Threads; at least one, and no more than `ahead`.
    pub workers: usize,
    /// Steps that are begun or ready; at least one.
    pub ahead: usize,
    /// Bytes of the steps that are begun or ready, those begun taken to be as large as the largest so far. One step is made whatever it
    /// takes.
    pub bytes: u64,
}

/// What taking a step gives.
#[derive(Debug)]
pub enum Taken {
    /// What came of it.
    Made(Box<Made>),
    /// The pipeline was stopped.
    Stopped,
    /// The deadline has passed.
    TimedOut,
}

/// What makes a step.
pub(crate) trait Make: Send + Sync + 'static {
    /// What comes of a step.
    fn make(&self, step: u64) -> Made;

    /// Bytes of each step, if that is known before one is made.
    fn expected(&self) -> Option<u64>;
}

/// Steps that are made ahead by threads. All methods may be called from many threads.
#[derive(Debug)]
pub struct Pipeline {
    shared: Arc<Shared>,
    process: u32,
}

struct Shared {
    make: Box<dyn Make>,
    state: Mutex<State>,
    /// For threads: perhaps a step may be begun.
    room: Condvar,
    /// For takers: a step is ready, or a thread has ended.
    news: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    processors: usize,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Start threads that make the steps from `first_step` on.
    ///
    /// # Errors
    /// [`Error::NoThread`] if not a single one can be started.
    pub fn start(plan: Plan, limits: Limits, first_step: u64) -> Result<Self> {
        Self::start_making(Box::new(plan), limits, first_step)
    }

    fn start_making(make: Box<dyn Make>, limits: Limits, first_step: u64) -> Result<Self> {
        let state = State::new(limits, first_step, make.expected());
        let shared = Shared {
            make,
            state: Mutex::new(state),
            room: Condvar::new(),
            news: Condvar::new(),
            threads: Mutex::new(Vec::new()),
            processors: thread::available_parallelism().map_or(1, usize::from),
        };
        // Dropping it stops the threads that are there.
        let pipeline = Self { shared: Arc::new(shared), process: process::id() };
        for number in 0..limits.workers.clamp(1, limits.ahead.max(1)) {
            let shared = Arc::clone(&pipeline.shared);
            pipeline.shared.lock().alive += 1;
            let leaving = Leaving(shared);
            let named = thread::Builder::new().name(format!("loaderx-gather-{number}"));
            match named.spawn(move || work(&leaving)) {
                Ok(thread) => lock(&pipeline.shared.threads).push(thread),
                Err(source) if number == 0 => return Err(Error::NoThread { source }),
                Err(_) => break,
            }
        }
        Ok(pipeline)
    }

    /// Wait for what came of a step, until the deadline if there is one; whoever gets it has it alone.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a step that comes before the first, or that was taken before;
    /// [`StepTooLarge`](zsampler::Error::StepTooLarge) for one that is never made.
    pub fn take(&self, step: u64, deadline: Option<Instant>) -> Result<Taken> {
        self.take_wanted(Wanted::Step(step), deadline)
    }

    /// As [`Pipeline::take`], of the lowest step that is ready, or else of the first that becomes ready.
    ///
    /// # Errors
    /// As there, once the steps have ended.
    pub fn take_any(&self, deadline: Option<Instant>) -> Result<Taken> {
        self.take_wanted(Wanted::Any, deadline)
    }

    fn take_wanted(&self, wanted: Wanted, deadline: Option<Instant>) -> Result<Taken> {
        if !self.is_here() {
            return Ok(Taken::Stopped);
        }
        let shared = &*self.shared;
        let mut state = shared.lock();
        loop {
            if state.stopped {
                return Ok(Taken::Stopped);
            }
            if let Some(made) = state.take(wanted)? {
                drop(state);
                shared.room.notify_one();
                return Ok(Taken::Made(Box::new(made)));
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(Taken::TimedOut);
            }
            state.waiting.push(wanted);
            if state.may_begin() {
                shared.room.notify_one();
            }
            state = wait(&shared.news, state, left);
            state.no_longer_waits(wanted);
        }
    }

    /// Let go of all steps below `step`: those that are ready are freed, and none of them is begun any more.
    pub fn forget(&self, step: u64) {
        if self.is_here() {
            let forgotten = self.shared.lock().forget(step);
            self.shared.room.notify_one();
            drop(forgotten);
        }
    }

    /// The number of steps that are ready.
    #[must_use]
    pub fn ready(&self) -> usize {
        if self.is_here() { self.shared.lock().ready() } else { 0 }
    }

    /// Begin nothing more, and let whoever waits know. Threads end after the step in hand, which is not waited for.
    pub fn stop(&self) {
        if self.is_here() {
            self.shared.stop();
        }
    }

    /// Wait for the threads to end, until the deadline; whether they have. After [`Pipeline::stop`], or they have no reason to.
    #[must_use]
    pub fn join(&self, deadline: Instant) -> bool {
        if !self.is_here() {
            return true;
        }
        let mut state = self.shared.lock();
        while state.alive > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = wait(&self.shared.news, state, Some(left));
        }
        drop(state);
        // They are past their last step: this takes a moment.
        for thread in std::mem::take(&mut *lock(&self.shared.threads)) {
            let _ = thread.join();
        }
        true
    }

    fn is_here(&self) -> bool {
        self.process == process::id()
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if self.is_here() {
            self.shared.stop();
        } else {
            // One reference that is never given back keeps all of it from being freed.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        let forgotten = state.clear();
        drop(state);
        self.room.notify_all();
        self.news.notify_all();
        drop(forgotten);
    }

    /// The next step, as soon as it may be begun, and whether as many as there are processors are begun then; `None` once the pipeline
    /// is stopped.
    fn begin(&self) -> Option<(u64, bool)> {
        let mut state = self.lock();
        loop {
            if state.stopped {
                return None;
            }
            if state.may_begin() {
                let step = state.begin();
                if state.may_begin() {
                    self.room.notify_one();
                }
                return Some((step, state.begun() >= self.processors));
            }
            state = wait(&self.room, state, None);
        }
    }

    fn finish(&self, made: Made) {
        let mut state = self.lock();
        let forgotten = state.finish(made);
        drop(state);
        self.news.notify_all();
        drop(forgotten);
    }
}

/// A thread's life.
fn work(leaving: &Leaving) {
    let shared = &*leaving.0;
    while let Some((step, crowded)) = shared.begin() {
        let make = || Ok(shared.make.make(step));
        // A gather is shared by all processors, unless each of them has a step of its own: to share takes longer then.
        let made = caught(|| if crowded { zrecord::on_this_thread(make) } else { make() });
        shared.finish(made.unwrap_or_else(|error| Made::failed(step, None, error)));
    }
}

/// A thread that has not ended yet.
struct Leaving(Arc<Shared>);

impl Drop for Leaving {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.alive -= 1;
        // Nobody shall wait for a step that no thread is left to make.
        let deserted = state.alive == 0 && !state.stopped;
        state.stopped |= deserted;
        drop(state);
        self.0.news.notify_all();
    }
}

/// Nothing panics while it holds one of these locks, so a poisoned one is in order too.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(news: &Condvar, guard: MutexGuard<'a, T>, at_most: Option<Duration>) -> MutexGuard<'a, T> {
    match at_most {
        None => news.wait(guard).unwrap_or_else(PoisonError::into_inner),
        Some(time) => news.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0,
    }
}
