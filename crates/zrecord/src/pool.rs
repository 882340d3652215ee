//! Worker threads for the blocks of one batch. The caller takes part; a worker that has nothing to do looks out for the next job for a
//! moment, then parks: waking it takes longer than a small batch does.
//!
//! Unsafe: workers call a closure that lives on the caller's stack, through a pointer whose lifetime is erased, and the
//! process-wide pool is reached through a raw pointer.
//!
//! What could go wrong: a worker calls the closure after `run` has returned. It can't: a worker enters a job only under
//! the queue's lock while the job is queued, counting itself in `active`; before `run` returns, in each way it can, a
//! guard takes the job off the queue under that lock, so nobody enters any more, and waits until `active` is 0, so nobody
//! is inside any more. The job's own memory is shared by `Arc`, so the last steps of a leaving worker touch nothing of
//! the caller's. The pool itself is never freed.
//!
//! After a fork the child has a copy of the pool's memory but none of its threads, and its lock may be held by one of
//! them. So the pool is keyed by the process id: in a child the id differs, and a new pool takes the old one's place
//! without touching anything of it but that id. A block must not fork and return in the child.

use std::any::Any;
use std::cell::Cell;
use std::collections::VecDeque;
use std::hint;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// A block panicked.
#[derive(Debug, thiserror::Error)]
#[error("a block of the batch panicked: {message}")]
pub(crate) struct PoolPanic {
    /// What the panic said.
    pub(crate) message: String,
}

/// Threads that a batch can use: the caller's own and the workers.
pub(crate) fn threads() -> usize {
    // Not a `OnceLock`: a fork while another thread fills it would leave the child waiting for that thread.
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    match THREADS.load(Ordering::Relaxed) {
        0 => {
            let threads = thread::available_parallelism().map_or(1, usize::from);
            THREADS.store(threads, Ordering::Relaxed);
            threads
        }
        known => known,
    }
}

/// Calls `work` with each of `0..blocks` exactly once and returns when all calls have returned. At most `threads_hint`
/// threads do so, the caller being one of them; 0 means as many as the machine has.
///
/// From inside a block it works on the same thread, one block after the other.
///
/// # Errors
/// If a call panicked: then the blocks that nobody had begun are left out.
pub(crate) fn run(
    blocks: usize,
    threads_hint: usize,
    work: &(dyn Fn(usize) + Sync),
) -> Result<(), PoolPanic> {
    if blocks <= 1 || threads_hint == 1 || INSIDE.get() {
        return Job::new(work, blocks).outcome_of_share();
    }
    Pool::of_this_process().run(blocks, threads_hint, work)
}

/// Run `work`, and what it asks of stores, on this thread alone: for callers that have a thread for each processor themselves.
pub fn on_this_thread<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _restore = Restore(INSIDE.replace(true));
    work()
}

/// What `work` returns for each of `0..blocks`, in order; on as many threads as the machine has.
///
/// # Errors
/// As [`run`].
pub(crate) fn map<T: Send>(blocks: usize, work: &(dyn Fn(usize) -> T + Sync)) -> Result<Vec<T>, PoolPanic> {
    let slots: Vec<Mutex<Option<T>>> = (0..blocks).map(|_| Mutex::new(None)).collect();
    run(blocks, threads(), &|i| {
        if let Some(slot) = slots.get(i) {
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(work(i));
        }
    })?;
    Ok(slots
        .into_iter()
        .filter_map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect())
}

/// How long a worker looks out for the next job: about as long as it takes to wake one that parks.
const WATCH: Duration = Duration::from_micros(50);

thread_local! {
    /// Whether this thread is in a block of some job, or is to work alone.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

type Work = dyn Fn(usize) + Sync;

/// One call of `run`.
struct Job {
    /// Valid while the job is queued or `active` is not 0, and for the caller until `run` returns.
    work: *const Work,
    blocks: usize,
    /// The first block that nobody has claimed.
    next: AtomicUsize,
    /// Workers inside. Raised under the queue's lock only.
    active: AtomicUsize,
    /// Who waits for `active` to become 0.
    caller: Thread,
    panic: Mutex<Option<PoolPanic>>,
}

// SAFETY: `work` points to a `Sync` closure and is only called within its lifetime, as the head of this file argues.
unsafe impl Send for Job {}
// SAFETY: as above; the other fields are `Sync` themselves.
unsafe impl Sync for Job {}

impl Job {
    fn new(work: &(dyn Fn(usize) + Sync), blocks: usize) -> Self {
        let work: *const (dyn Fn(usize) + Sync + '_) = work;
        // SAFETY: only the lifetime changes, and a raw pointer makes no claim about it. The head of this file argues why
        // it is not called later than that.
        let work = unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const Work>(work) };
        Self {
            work,
            blocks,
            next: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            caller: thread::current(),
            panic: Mutex::new(None),
        }
    }

    fn is_claimed(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.blocks
    }

    /// Claims block after block until none is left. Only for the caller, and for workers counted in `active`.
    fn share(&self) {
        // SAFETY: the caller is still in `run`, whose argument this is: either it is this thread, or it waits until this
        // worker has left.
        let work = unsafe { &*self.work };
        loop {
            let block = self.next.fetch_add(1, Ordering::Relaxed);
            if block >= self.blocks {
                return;
            }
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| work(block))) {
                self.next.store(self.blocks, Ordering::Relaxed);
                lock(&self.panic).get_or_insert(PoolPanic { message: panic_text(payload) });
            }
        }
    }

    fn outcome_of_share(&self) -> Result<(), PoolPanic> {
        self.share();
        self.outcome()
    }

    fn outcome(&self) -> Result<(), PoolPanic> {
        lock(&self.panic).take().map_or(Ok(()), Err)
    }

    /// A worker's last step: after it the closure may be gone.
    fn leave(&self) {
        // Release: what the blocks wrote is visible to the caller that sees 0.
        if self.active.fetch_sub(1, Ordering::Release) == 1 {
            self.caller.unpark();
        }
    }

    fn wait_until_left(&self) {
        let mut patience = 2000;
        while self.active.load(Ordering::Acquire) != 0 {
            if patience > 0 {
                patience -= 1;
                hint::spin_loop();
            } else {
                thread::park();
            }
        }
    }
}

/// A job on the queue, with the number of workers that may still enter it.
struct Entry {
    job: Arc<Job>,
    seats: usize,
}

struct Queue {
    entries: VecDeque<Entry>,
    /// Workers that look out for an entry.
    watching: usize,
    /// Workers that wait to be woken.
    parked: usize,
}

impl Queue {
    /// Enters the job that has waited longest. It goes to the end, so that workers spread over jobs.
    fn enter(&mut self) -> Option<Arc<Job>> {
        while let Some(Entry { job, seats }) = self.entries.pop_front() {
            if job.is_claimed() {
                continue;
            }
            job.active.fetch_add(1, Ordering::Relaxed);
            if seats > 1 {
                self.entries.push_back(Entry { job: Arc::clone(&job), seats: seats - 1 });
            }
            return Some(job);
        }
        None
    }
}

struct Pool {
    process: u32,
    workers: usize,
    start: Once,
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Jobs that were ever queued: what a watching worker looks at.
    queued: AtomicUsize,
}

impl Pool {
    fn new(workers: usize) -> Self {
        let queue = Mutex::new(Queue { entries: VecDeque::new(), watching: 0, parked: 0 });
        let (start, wake, queued) = (Once::new(), Condvar::new(), AtomicUsize::new(0));
        Self { process: process::id(), workers, start, queue, wake, queued }
    }

    fn of_this_process() -> &'static Self {
        static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());
        let seen = POOL.load(Ordering::Acquire);
        // SAFETY: null, or a pool that was leaked below; a child of a fork has a copy of it at the same place.
        if let Some(pool) = unsafe { seen.as_ref() }
            && pool.process == process::id()
        {
            return pool;
        }
        let fresh = Box::into_raw(Box::new(Self::new(threads() - 1)));
        match POOL.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: `fresh` was leaked just now and is never freed from here on.
            Ok(_) => unsafe { &*fresh },
            Err(winner) => {
                // SAFETY: `fresh` was not published, so this is the only pointer to it. `winner` was, by another thread of
                // this process, so it is leaked and of this process.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*winner
                }
            }
        }
    }

    fn run(
        &'static self,
        blocks: usize,
        threads_hint: usize,
        work: &(dyn Fn(usize) + Sync),
    ) -> Result<(), PoolPanic> {
        let most = if threads_hint == 0 { self.workers } else { threads_hint - 1 };
        let seats = most.min(self.workers).min(blocks - 1);
        let job = Arc::new(Job::new(work, blocks));
        if seats == 0 {
            return job.outcome_of_share();
        }
        self.start.call_once(|| self.start_workers());
        let queued = Queued { pool: self, job: &job };
        let to_wake = {
            let mut queue = lock(&self.queue);
            queue.entries.push_back(Entry { job: Arc::clone(&job), seats });
            seats.saturating_sub(queue.watching).min(queue.parked)
        };
        self.queued.fetch_add(1, Ordering::Release);
        (0..to_wake).for_each(|_| self.wake.notify_one());
        INSIDE.set(true);
        job.share();
        INSIDE.set(false);
        drop(queued);
        job.outcome()
    }

    /// A worker that can't be started is one less: callers get by without.
    fn start_workers(&'static self) {
        for number in 0..self.workers {
            let named = thread::Builder::new().name(format!("zrecord-{number}"));
            if named.spawn(|| self.serve()).is_err() {
                return;
            }
        }
    }

    /// A worker's life. It ends with the process, which does not wait for it.
    fn serve(&self) {
        INSIDE.set(true);
        let mut queue = lock(&self.queue);
        // Only who has just worked: the next batch often follows at once.
        let mut watches = false;
        loop {
            if let Some(job) = queue.enter() {
                drop(queue);
                job.share();
                job.leave();
                drop(job);
                queue = lock(&self.queue);
                watches = true;
            } else if watches {
                queue.watching += 1;
                let seen = self.queued.load(Ordering::Acquire);
                drop(queue);
                watches = self.watch(seen);
                queue = lock(&self.queue);
                queue.watching -= 1;
            } else {
                queue.parked += 1;
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.parked -= 1;
            }
        }
    }

    /// Whether a job was queued within a moment.
    fn watch(&self, seen: usize) -> bool {
        let start = Instant::now();
        while start.elapsed() < WATCH {
            for _ in 0..32 {
                if self.queued.load(Ordering::Acquire) != seen {
                    return true;
                }
                hint::spin_loop();
            }
        }
        false
    }
}

/// While this lives, workers may enter the job. Dropping it returns when none is inside and none can enter.
struct Queued<'a> {
    pool: &'static Pool,
    job: &'a Arc<Job>,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        lock(&self.pool.queue).entries.retain(|entry| !Arc::ptr_eq(&entry.job, self.job));
        self.job.wait_until_left();
    }
}

/// Nothing panics while it holds one of these locks, so a poisoned one is in order too.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a panic said.
#[must_use]
pub fn panic_text(payload: Box<dyn Any + Send>) -> String {
    if let Some(message) = payload.downcast_ref::<&str>() {
        (*message).to_owned()
    } else if let Some(message) = payload.downcast_ref::<String>() {
        message.clone()
    } else {
        // Dropping an unknown value could panic again.
        std::mem::forget(payload);
        "it did not say why".to_owned()
    }
}

#[cfg(test)]
mod tests;
