//! Several data sets by share.

mod checked;

use std::sync::Arc;

use crate::lanes::Kernel;
use crate::order::Order;
use crate::permute::{Domain, Permutation};
use crate::quota::Quota;
use crate::rng::{Purpose, low};
use crate::scattered::Wanted;
use crate::{Error, Mode, slots};

/// The most components of a mixture, 2^16.
pub const MAX_COMPONENTS: u64 = 1 << 16;

/// The most weights of all entries of a mixture's schedule together, 2^24.
pub const MAX_SCHEDULED: u64 = 1 << 24;

/// Batches that are drawn from several data sets ("components") by share, as a pure function of (seed, step).
///
/// Of any number of records from the first of a schedule's entry on, a component of weight `w` has `w / sum` of them, give
/// or take half a record for each time that the number of components doubles from one on. Within a component
/// records come as its mode says, each component in an order of its own; a cyclic one drops no remainder. A batch lays its
/// records out in random order, so that each rank's part is mixed.
///
/// ```
/// use zsampler::{Mixture, Mode};
///
/// let mixture = Mixture::new(&[1000, 50], 10, Mode::Cyclic, 42, &[(0, vec![0.8, 0.2])], true)?;
/// assert_eq!(mixture.counts(7), [8, 2]);
/// let (sources, indices) = mixture.batch_at(7);
/// assert_eq!(sources.iter().filter(|&&source| source == 1).count(), 2);
/// assert!(sources.iter().zip(indices).all(|(&source, index)| index < [1000, 50][source as usize]));
/// # Ok::<(), zsampler::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Mixture {
    parts: Arc<Parts>,
}

#[derive(Debug)]
struct Parts {
    lengths: Vec<u64>,
    orders: Vec<Order>,
    /// Of the places of a batch.
    domain: Domain,
    batch_size: u64,
    mode: Mode,
    seed: u64,
    /// At least one, and the first is from step 0 on.
    segments: Vec<Segment>,
}

/// An entry of the schedule.
#[derive(Debug)]
struct Segment {
    from: u64,
    quota: Quota,
    /// The records of each component in the steps before.
    before: Vec<u128>,
}

/// What a batch holds of each component.
struct Stretches {
    /// The number of its first record.
    first: Vec<u128>,
    count: Vec<u64>,
}

impl Mixture {
    /// Batches of `batch_size` records of components of these lengths. From the step of each entry of `schedule` on the
    /// components have its weights, which are proportions; the first entry is for step 0. With `exact`, each batch of an
    /// entry holds the same number of records of a component.
    ///
    /// # Errors
    /// [`Error::EmptyBatch`], [`Error::BatchTooLarge`]; [`Error::NoComponents`], [`Error::TooManyComponents`] above
    /// [`MAX_COMPONENTS`]; [`Error::NoSchedule`], [`Error::ScheduleTooLong`] above [`MAX_SCHEDULED`] weights,
    /// [`Error::ScheduleStart`], [`Error::ScheduleOrder`] unless steps rise, [`Error::StepTooLarge`] past
    /// [`MAX_STEP`](crate::MAX_STEP); [`Error::WrongShares`] unless there is a weight for each component,
    /// [`Error::BadShare`], [`Error::ZeroShares`] and [`Error::SharesOverflow`] for those that are no weights,
    /// [`Error::EmptyComponent`] for one of length 0 that has weight, and [`Error::NotWhole`] where `exact` can't be.
    pub fn new(
        lengths: &[u64],
        batch_size: u64,
        mode: Mode,
        seed: u64,
        schedule: &[(u64, Vec<f64>)],
        exact: bool,
    ) -> Result<Self, Error> {
        let parts = Parts::new(lengths, batch_size, mode, seed, schedule, exact)?;
        Ok(Self { parts: Arc::new(parts) })
    }

    /// The number of records of each component: an index of component `k` is below `lengths()[k]`.
    pub fn lengths(&self) -> &[u64] {
        &self.parts.lengths
    }

    /// The number of records in each batch.
    pub fn batch_size(&self) -> u64 {
        self.parts.batch_size
    }

    /// The order of the records of each component.
    pub fn mode(&self) -> Mode {
        self.parts.mode
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.parts.seed
    }

    /// How many records of each component the batch of a step holds. They sum to the batch size.
    pub fn counts(&self, step: u64) -> Vec<u64> {
        self.parts.stretches(step).count
    }

    /// The components and the indices of the batch of a step. Every step has one, those past
    /// [`MAX_STEP`](crate::MAX_STEP) too.
    pub fn batch_at(&self, step: u64) -> (Vec<u32>, Vec<u64>) {
        // At most MAX_BATCH_SIZE, which a usize holds wherever that many indices fit in memory.
        let count = usize::try_from(self.parts.batch_size).unwrap_or(usize::MAX);
        let (mut sources, mut indices) = (vec![0; count], vec![0; count]);
        self.parts.fill(step, 0, &mut sources, &mut indices);
        (sources, indices)
    }

    /// A part of a step's batch, the places from `start` on: the component of each into `sources`, and the index within
    /// that component into `indices`.
    ///
    /// It takes time and memory of the order of the components and of the places asked for, and the binary logarithm of the
    /// components for each place. Where a batch holds more of a component than what is left of its cycle, those places are
    /// sorted and each cycle that they meet costs up to 32 hashes.
    ///
    /// # Errors
    /// [`Error::UnequalDestinations`], and [`Error::RangeBeyondBatch`] if the part reaches beyond the batch; nothing is
    /// then written.
    pub fn fill_range(
        &self,
        step: u64,
        start: u64,
        sources: &mut [u32],
        indices: &mut [u64],
    ) -> Result<(), Error> {
        let (count, batch_size) = (indices.len() as u64, self.parts.batch_size);
        if sources.len() != indices.len() {
            return Err(Error::UnequalDestinations { sources: sources.len() as u64, indices: count });
        }
        if start > batch_size || count > batch_size - start {
            return Err(Error::RangeBeyondBatch { start, count, batch_size });
        }
        if !indices.is_empty() {
            self.parts.fill(step, start, sources, indices);
        }
        Ok(())
    }
}

impl Parts {
    fn stretches(&self, step: u64) -> Stretches {
        let current = self.segments.partition_point(|segment| segment.from <= step).saturating_sub(1);
        let mut first = vec![0; self.lengths.len()];
        let mut end = first.clone();
        if let Some(Segment { from, quota, before }) = self.segments.get(current) {
            let batches = u128::from(step - from);
            quota.fill(batches, self.batch_size, &mut first);
            quota.fill(batches + 1, self.batch_size, &mut end);
            // What a batch holds is no more than its size, so the low half is all of it.
            let count = first.iter().zip(&end).map(|(first, end)| low(end - first)).collect();
            first.iter_mut().zip(before).for_each(|(first, before)| *first += before);
            return Stretches { first, count };
        }
        Stretches { first, count: vec![0; self.lengths.len()] }
    }

    /// The destinations are of one length, are not empty, and lie within the batch.
    fn fill(&self, step: u64, start: u64, sources: &mut [u32], indices: &mut [u64]) {
        let kernel = Kernel::best();
        let Stretches { first, count } = self.stretches(step);
        // The batch's slots are component 0's, then component 1's, and so on. Which slot stands at a place:
        Permutation::new(self.domain, self.seed, Purpose::Placement, step).fill(
            kernel,
            start,
            slots::of(indices),
        );

        let starts: Vec<u64> =
            count.iter().scan(0, |next, count| Some(std::mem::replace(next, *next + count))).collect();
        // One who has no slots begins where the next one does, and so is never the last that begins at or before a slot.
        let mut heads = vec![0_usize; starts.len()];
        for (source, slot) in sources.iter_mut().zip(&mut *indices) {
            let component = starts.partition_point(|start| start <= slot).saturating_sub(1);
            *slot -= starts.get(component).copied().unwrap_or(0);
            // Below MAX_COMPONENTS.
            *source = u32::try_from(component).unwrap_or(u32::MAX);
            if let Some(head) = heads.get_mut(component) {
                *head += 1;
            }
        }
        let tallies = heads.clone();
        heads.iter_mut().fold(0, |next, head| next + std::mem::replace(head, next));
        let mut offsets = vec![0; indices.len()];
        let mut places = vec![0; indices.len()];
        for (place, (&source, &offset)) in sources.iter().zip(&*indices).enumerate() {
            if let Some(head) = heads.get_mut(source as usize) {
                if let (Some(to), Some(at)) = (offsets.get_mut(*head), places.get_mut(*head)) {
                    (*to, *at) = (offset, place);
                }
                *head += 1;
            }
        }

        let (mut offsets, mut places) = (&mut offsets[..], &mut places[..]);
        for (((order, &tally), &first), &span) in self.orders.iter().zip(&tallies).zip(&first).zip(&count) {
            let (now, later) = offsets.split_at_mut(tally);
            let (at, after) = places.split_at_mut(tally);
            if tally > 0 {
                order.pick(kernel, Wanted { first, span, offsets: now, places: at });
                for (&mut index, &mut place) in now.iter_mut().zip(at) {
                    if let Some(slot) = indices.get_mut(place) {
                        *slot = index;
                    }
                }
            }
            (offsets, places) = (later, after);
        }
    }
}
