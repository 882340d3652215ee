//! A value that some threads replace and all read, and that a fork can't lock.
//!
//! At a fork another thread may be about to publish, or reading. In the child that thread's lock is never given back, so nobody may wait for
//! it. Whoever publishes has a slot to itself, writes it, gives its lock back, and only then sends readers there; so the slot that readers are
//! sent to is never locked for writing, at no moment at which a fork could come.

use std::hint;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, TryLockError};

/// One is read, one is written; the others are for forks, each of which can cost a slot or two.
const SLOTS: usize = 8;

/// The newest of several values.
#[derive(Debug)]
pub(crate) struct Published<T> {
    slots: [RwLock<T>; SLOTS],
    /// The slot to read.
    newest: AtomicUsize,
    /// A bit for each slot that is the newest, or that somebody publishes in. No two publishers have the same one.
    taken: AtomicU32,
}

impl<T: Copy> Published<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            slots: std::array::from_fn(|_| RwLock::new(value)),
            newest: AtomicUsize::new(0),
            taken: AtomicU32::new(1),
        }
    }

    pub(crate) fn get(&self) -> T {
        loop {
            let newest = self.newest.load(Ordering::Acquire);
            let value = match self.slots.get(newest).map(RwLock::try_read) {
                Some(Ok(value)) => *value,
                Some(Err(TryLockError::Poisoned(value))) => *value.into_inner(),
                // It was superseded, and is written anew.
                Some(Err(TryLockError::WouldBlock)) | None => {
                    hint::spin_loop();
                    continue;
                }
            };
            // Superseded and written anew it may hold what is not published yet.
            if self.newest.load(Ordering::Acquire) == newest {
                return value;
            }
        }
    }

    pub(crate) fn set(&self, value: T) {
        let number = self.write(value);
        let before = self.newest.swap(number, Ordering::AcqRel);
        self.taken.fetch_and(!(1 << before), Ordering::Release);
    }

    /// Writes `value` into a slot that becomes this publisher's.
    fn write(&self, value: T) -> usize {
        loop {
            for (number, slot) in self.slots.iter().enumerate() {
                if self.taken.fetch_or(1 << number, Ordering::AcqRel) & (1 << number) != 0 {
                    continue;
                }
                match slot.try_write() {
                    Ok(mut slot) => *slot = value,
                    Err(TryLockError::Poisoned(slot)) => *PoisonError::into_inner(slot) = value,
                    // Somebody still reads what it held.
                    Err(TryLockError::WouldBlock) => {
                        self.taken.fetch_and(!(1 << number), Ordering::Release);
                        continue;
                    }
                }
                return number;
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
    fn a_publisher_that_stops_anywhere_stops_nobody_else() {
        let published = Published::new(7);
        // With a slot of its own, before it is written, and when readers are about to be sent there.
        published.taken.fetch_or(0b10, Ordering::AcqRel);
        let written = published.write(8);
        assert_eq!(published.get(), 7);
        // Sent there, with the old slot not given back.
        published.newest.swap(written, Ordering::AcqRel);
        assert_eq!(published.get(), 8);
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

    #[test]
    fn publishers_never_share_a_slot() {
        let published = Published::new([0u64; 16]);
        std::thread::scope(|scope| {
            for publisher in 1..=3 {
                let published = &published;
                scope.spawn(move || {
                    for value in 0..20_000 {
                        published.set([value * 4 + publisher; 16]);
                        let found = published.get();
                        assert!(found.iter().all(|&value| value == found[0]), "{found:?}");
                    }
                });
            }
        });
        assert_eq!(published.taken.load(Ordering::Acquire).count_ones(), 1);
    }
}
