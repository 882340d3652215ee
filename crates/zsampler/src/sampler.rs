//! Batches of an order, by step.

use std::mem::MaybeUninit;

use crate::lanes::Kernel;
use crate::order::Order;
use crate::{Error, Mode, slots};

/// The last step there is, 2^63 - 1. Nobody gets from there to the end of a `u64` by counting.
pub const MAX_STEP: u64 = (1 << 63) - 1;

/// The largest batch, 2^60 - 1 indices: the most that an address space holds.
pub const MAX_BATCH_SIZE: u64 = (1 << 60) - 1;

pub(crate) fn check_batch_size(batch_size: u64) -> Result<(), Error> {
    match batch_size {
        0 => Err(Error::EmptyBatch),
        1..=MAX_BATCH_SIZE => Ok(()),
        _ => Err(Error::BatchTooLarge { batch_size }),
    }
}

/// Index batches as a pure function of (seed, step), in constant memory.
///
/// As an iterator it yields [`Sampler::next_batch`] and never ends.
#[derive(Debug, Clone)]
pub struct Sampler {
    length: u64,
    batch_size: u64,
    mode: Mode,
    seed: u64,
    step: u64,
    order: Order,
}

impl Sampler {
    /// A sampler of batches of `batch_size` indices below `length`, standing at step 0.
    ///
    /// A space smaller than the batch works in sequential mode, which wraps, and in iid mode, which repeats.
    ///
    /// # Errors
    /// [`Error::EmptyLength`], [`Error::EmptyBatch`], [`Error::BatchTooLarge`] above [`MAX_BATCH_SIZE`], and
    /// [`Error::BatchExceedsLength`] for a cyclic batch that would have to repeat an index.
    pub fn new(length: u64, batch_size: u64, mode: Mode, seed: u64) -> Result<Self, Error> {
        if length == 0 {
            return Err(Error::EmptyLength);
        }
        check_batch_size(batch_size)?;
        if mode == Mode::Cyclic && batch_size > length {
            return Err(Error::BatchExceedsLength { batch_size, length });
        }
        Ok(Self {
            length,
            batch_size,
            mode,
            seed,
            step: 0,
            order: Order::new(length, batch_size, mode, seed),
        })
    }

    /// The number of records: every index is below it.
    pub const fn length(&self) -> u64 {
        self.length
    }

    /// The number of indices in each batch.
    pub const fn batch_size(&self) -> u64 {
        self.batch_size
    }

    /// The order of the records.
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// The seed. Sequential order does not depend on it.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The step whose batch comes next.
    pub const fn step(&self) -> u64 {
        self.step
    }

    /// Go to a step, in constant time: the next batch is that step's.
    ///
    /// # Errors
    /// [`Error::StepTooLarge`] past [`MAX_STEP`]; the sampler then stays where it is.
    pub const fn seek(&mut self, step: u64) -> Result<(), Error> {
        if step > MAX_STEP {
            return Err(Error::StepTooLarge { step });
        }
        self.step = step;
        Ok(())
    }

    /// The batch of the current step; the sampler then stands at the next.
    pub fn next_batch(&mut self) -> Vec<u64> {
        let batch = self.batch_at(self.step);
        // `seek` stops at MAX_STEP, and the second half of the numbers is too far to walk.
        self.step += 1;
        batch
    }

    /// The batch of a step, wherever the sampler stands. Every step has one, those past [`MAX_STEP`] too.
    pub fn batch_at(&self, step: u64) -> Vec<u64> {
        // At most MAX_BATCH_SIZE, which a usize holds wherever that many indices fit in memory.
        let mut batch = vec![0; usize::try_from(self.batch_size).unwrap_or(usize::MAX)];
        self.order.fill(Kernel::best(), self.batch_size, step, 0, slots::of(&mut batch));
        batch
    }

    /// The batch of a step into `out`, without allocating.
    ///
    /// # Errors
    /// [`Error::WrongDestination`] if `out` is not one batch long; it is then untouched.
    pub fn fill(&self, step: u64, out: &mut [u64]) -> Result<(), Error> {
        let found = out.len() as u64;
        if found != self.batch_size {
            return Err(Error::WrongDestination { batch_size: self.batch_size, found });
        }
        self.order.fill(Kernel::best(), self.batch_size, step, 0, slots::of(out));
        Ok(())
    }

    /// As [`Sampler::fill`], for memory that was just allocated: what it held before doesn't matter, and nobody has
    /// to write zeros first. All of `out` is returned.
    ///
    /// # Errors
    /// [`Error::WrongDestination`] if `out` is not one batch long; it is then untouched.
    pub fn fill_new<'a>(&self, step: u64, out: &'a mut [MaybeUninit<u64>]) -> Result<&'a mut [u64], Error> {
        let found = out.len() as u64;
        if found != self.batch_size {
            return Err(Error::WrongDestination { batch_size: self.batch_size, found });
        }
        self.order.fill(Kernel::best(), self.batch_size, step, 0, out);
        Ok(slots::written(out))
    }

    /// A part of a step's batch, the places from `start` on, into `out`, without allocating. Ranks that share a
    /// batch each take their part of it.
    ///
    /// # Errors
    /// [`Error::RangeBeyondBatch`] if the part reaches beyond the batch; `out` is then untouched.
    pub fn fill_range(&self, step: u64, start: u64, out: &mut [u64]) -> Result<(), Error> {
        let (count, batch_size) = (out.len() as u64, self.batch_size);
        if start > batch_size || count > batch_size - start {
            return Err(Error::RangeBeyondBatch { start, count, batch_size });
        }
        if !out.is_empty() {
            self.order.fill(Kernel::best(), batch_size, step, start, slots::of(out));
        }
        Ok(())
    }

    /// The first step at or after `step` at which record `index` is drawn, and its place in that batch; the
    /// first place where a batch holds it twice. `None` in iid mode, where only drawing can tell.
    ///
    /// It asks the inverse of the order: constant time, a cyclic record that falls into the dropped remainder of
    /// a cycle is looked up in the next.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`]; [`Error::StepTooLarge`] if `step` is past [`MAX_STEP`];
    /// [`Error::NeverDrawn`] if the next draw is.
    pub fn next_draw(&self, index: u64, step: u64) -> Result<Option<(u64, u64)>, Error> {
        if index >= self.length {
            return Err(Error::IndexOutOfRange { index, length: self.length });
        }
        if step > MAX_STEP {
            return Err(Error::StepTooLarge { step });
        }
        self.order.next_draw(self.batch_size, index, step)
    }
}

impl Iterator for Sampler {
    type Item = Vec<u64>;

    fn next(&mut self) -> Option<Vec<u64>> {
        Some(self.next_batch())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::MAX, None)
    }
}
