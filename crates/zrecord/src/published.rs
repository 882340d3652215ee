//! A value that some threads replace and all read, and that a fork can't lock.
//!
//! At a fork another thread may be about to publish, or reading. In the child that thread's lock is never given back, so nobody may wait for
//! it: whoever publishes takes a slot that nobody has, and never the one that readers are sent to.

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, TryLockError};

/// One is read, one is written; the others are for forks, each of which can cost a slot or two.
const SLOTS: usize = 8;

/// The newest of several values.
#[derive(Debug)]
pub(crate) struct Published<T> {
    slots: [RwLock<T>; SLOTS],
    /// The slot to read. Only who has locked a slot for writing makes it this one, so no other thread is ever writing to it.
    newest: AtomicUsize,
}

impl<T: Copy> Published<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { slots: std::array::from_fn(|_| RwLock::new(value)), newest: AtomicUsize::new(0) }
    }

    pub(crate) fn get(&self) -> T {
        loop {
            let newest = self.newest.load(Ordering::Acquire);
            match self.slots.get(newest).map(RwLock::try_read) {
                Some(Ok(value)) => return *value,
                Some(Err(TryLockError::Poisoned(value))) => return *value.into_inner(),
                // By now another one is the newest.
                Some(Err(TryLockError::WouldBlock)) | None => hint::spin_loop(),
            }
        }
    }

    pub(crate) fn set(&self, value: T) {
        loop {
            for (number, slot) in self.slots.iter().enumerate() {
                if number == self.newest.load(Ordering::Acquire) {
                    continue;
                }
                let mut slot = match slot.try_write() {
                    Ok(slot) => slot,
                    Err(TryLockError::Poisoned(slot)) => PoisonError::into_inner(slot),
                    Err(TryLockError::WouldBlock) => continue,
                };
                // It may have become the newest just before it was locked.
                if number != self.newest.load(Ordering::Acquire) {
                    *slot = value;
                    self.newest.store(number, Ordering::Release);
                    return;
                }
            }
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_last_is_read() {
        let published = Published::new(0);
        for value in 0..100 {
            published.set(value);
            assert_eq!(published.get(), value);
        }
    }

    #[test]
    fn nobody_waits_for_locks_that_are_never_given_back() {
        let published = Published::new(7);
        // Who was about to publish at a fork, and who was reading.
        let _publisher = published.slots[1].try_write().unwrap();
        let _reader = published.slots[0].try_read().unwrap();
        assert_eq!(published.get(), 7);
        for value in 0..100 {
            published.set(value);
            assert_eq!(published.get(), value);
        }
    }

    #[test]
    fn values_are_whole_and_only_grow() {
        let published = Published::new([0u64; 16]);
        let seen = |values: [u64; 16]| {
            assert!(values.iter().all(|&value| value == values[0]), "{values:?}");
            values[0]
        };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < 20_000 {
                        let now = seen(published.get());
                        assert!(now >= last);
                        last = now;
                    }
                });
            }
            for value in 0..=20_000 {
                published.set([value; 16]);
            }
        });
    }
}
