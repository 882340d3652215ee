//! Blocks of work that all threads make in any order, and that are taken one at a time in theirs.
//!
//! There is no thread for the taking: who has made a block that is next takes it, and those behind it that are ready, while the others
//! go on making. So no thread waits for another one but where too much is made already and not yet taken.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::pool;

/// What is made of block `i`, for all of `0..blocks`, is passed to `take` in order. `size` says what block `i` takes at most: blocks of no
/// more than `room` together are made ahead of those that are taken, or one, whatever it takes.
///
/// After an error nothing else is taken; what is being made is waited for.
///
/// # Errors
/// The first one of `make` or `take`; [`Error::Internal`] if either panicked.
pub(super) fn run<T: Send>(
    blocks: usize,
    room: usize,
    size: &(dyn Fn(usize) -> usize + Sync),
    make: &(dyn Fn(usize) -> Result<T> + Sync),
    take: &mut (dyn FnMut(T) -> Result<()> + Send),
) -> Result<()> {
    if blocks <= 1 {
        return (0..blocks).try_for_each(|i| take(make(i)?));
    }
    let line = Line {
        state: Mutex::new(State { next: 0, ahead: 0, ready: BTreeMap::new(), taking: false, failure: None }),
        moved: Condvar::new(),
        take: Mutex::new(take),
    };
    let work = |i: usize| {
        let guard = Unwinding(&line);
        if line.wait_for_room(i, size(i), room) {
            match make(i) {
                Ok(made) => line.put(i, made, size),
                Err(e) => line.fail(e),
            }
        }
        std::mem::forget(guard);
    };
    let outcome = pool::run(blocks, pool::threads(), &work).map_err(|e| Error::Internal(e.to_string()));
    match line.state.into_inner().unwrap_or_else(PoisonError::into_inner).failure {
        Some(Failure::Error(e)) => Err(e),
        _ => outcome,
    }
}

struct Line<'a, T> {
    state: Mutex<State<T>>,
    /// The line moved on, or stopped for good.
    moved: Condvar,
    /// Locked by who is taking, of whom there is one.
    take: Mutex<&'a mut (dyn FnMut(T) -> Result<()> + Send)>,
}

struct State<T> {
    /// The block that is taken next, or being taken.
    next: usize,
    /// The size of the blocks that were begun and are not yet taken.
    ahead: usize,
    ready: BTreeMap<usize, T>,
    taking: bool,
    failure: Option<Failure>,
}

enum Failure {
    Error(Error),
    Panic,
}

impl<T> Line<'_, T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `false` if there is nothing to be made any more. Blocks are begun in order, so the next one has been and never waits here for itself.
    fn wait_for_room(&self, i: usize, size: usize, room: usize) -> bool {
        let mut state = self.state();
        while state.failure.is_none() && i > state.next && state.ahead.saturating_add(size) > room {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.ahead = state.ahead.saturating_add(size);
        state.failure.is_none()
    }

    /// Block `i` is made. Take what is next, unless somebody does, who will come to it.
    fn put(&self, i: usize, made: T, size: &(dyn Fn(usize) -> usize + Sync)) {
        let mut state = self.state();
        // Behind a failure nothing is taken, whoever made it.
        if state.failure.is_some() {
            return;
        }
        state.ready.insert(i, made);
        if state.taking {
            return;
        }
        let next = state.next;
        let Some(mut made) = state.ready.remove(&next) else { return };
        state.taking = true;
        let mut take = self.take.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            drop(state);
            let outcome = take(made);
            state = self.state();
            if let Err(e) = outcome {
                state.failure.get_or_insert(Failure::Error(e));
            }
            state.ahead = state.ahead.saturating_sub(size(state.next));
            state.next += 1;
            self.moved.notify_all();
            let next = state.next;
            match state.ready.remove(&next) {
                Some(ready) if state.failure.is_none() => made = ready,
                _ => break,
            }
        }
        state.taking = false;
    }

    fn fail(&self, e: Error) {
        self.state().failure.get_or_insert(Failure::Error(e));
        self.moved.notify_all();
    }
}

/// Dropped by a panic: those who wait for the block would wait for ever.
struct Unwinding<'a, 'b, T>(&'a Line<'b, T>);

impl<T> Drop for Unwinding<'_, '_, T> {
    fn drop(&mut self) {
        self.0.state().failure.get_or_insert(Failure::Panic);
        self.0.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn uneven(i: usize) -> usize {
        (0..i * 7919 % 501 * 40).fold(i, |sum, n| std::hint::black_box(sum ^ n ^ n))
    }

    #[test]
    fn all_are_taken_once_and_in_order() {
        for blocks in [0, 1, 2, 3, 300] {
            for room in [0, 1, 5, usize::MAX] {
                let mut taken = Vec::new();
                run(blocks, room, &|_| 1, &|i| Ok(uneven(i)), &mut |i| {
                    taken.push(i);
                    Ok(())
                })
                .unwrap();
                assert_eq!(taken, (0..blocks).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn no_more_is_made_ahead_than_there_is_room_for() {
        let (made, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let make = |i| {
            most.fetch_max(made.fetch_add(10, Ordering::SeqCst) + 10, Ordering::SeqCst);
            Ok(uneven(i))
        };
        run(300, 40, &|_| 10, &make, &mut |i| {
            uneven(i * 3);
            made.fetch_sub(10, Ordering::SeqCst);
            Ok(())
        })
        .unwrap();
        // A block that is next begins whatever there is.
        assert!(most.into_inner() <= 50);
    }

    #[test]
    fn the_first_error_ends_it_and_nothing_behind_is_taken() {
        let error = |i: usize| Error::InvalidArgument(format!("block {i}"));
        for failing in [0, 1, 17, 99] {
            let mut taken = 0;
            let make = |i| if i == failing { Err(error(i)) } else { Ok(uneven(i)) };
            let found = run(100, 8, &|_| 1, &make, &mut |_| {
                taken += 1;
                Ok(())
            });
            assert_eq!(found.unwrap_err().to_string(), format!("block {failing}"));
            assert!(taken <= failing);

            let mut taken = 0;
            let found = run(100, 8, &|_| 1, &|i| Ok(uneven(i)), &mut |i| {
                taken += 1;
                if i == failing { Err(error(i)) } else { Ok(()) }
            });
            assert_eq!(found.unwrap_err().to_string(), format!("block {failing}"));
            assert_eq!(taken, failing + 1);
        }
    }

    #[test]
    fn a_panic_is_an_error_and_nobody_waits_for_it() {
        for failing in [0, 1, 17, 99] {
            let make = |i| if i == failing { panic!("block {i}") } else { Ok(uneven(i)) };
            let found = run(100, 2, &|_| 1, &make, &mut |_| Ok(()));
            assert!(matches!(found, Err(Error::Internal(_))), "{found:?}");
            let found = run(100, 2, &|_| 1, &|i| Ok(uneven(i)), &mut |i| {
                assert_ne!(i, failing);
                Ok(())
            });
            assert!(matches!(found, Err(Error::Internal(_))), "{found:?}");
        }
    }
}
