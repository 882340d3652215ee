//! Batches that are each of one bucket.

use std::sync::Arc;

use crate::lanes::Kernel;
use crate::order::Order;
use crate::permute::{Domain, Permutation};
use crate::rng::{Purpose, derive};
use crate::sampler::check_batch_size;
use crate::{Error, MAX_STEP, Mode, slots};

/// The most buckets there can be, 2^16.
pub const MAX_BUCKETS: u64 = 1 << 16;

/// Batches of which each is of one bucket alone, as a pure function of (seed, step): records of like length, say.
///
/// A bucket is a stretch of the records, the first one from record 0 on, and has a batch size of its own. A pass has all
/// whole batches of every bucket, in an order of its own each time; so no record comes twice in a pass, and none is
/// missing but what fills no batch of its bucket.
///
/// ```
/// use zsampler::{Bucketed, Mode};
///
/// // Eight records in batches of four, then three in batches of one.
/// let bucketed = Bucketed::new(&[(8, 4), (3, 1)], Mode::Cyclic, 42)?;
/// assert_eq!((bucketed.length(), bucketed.batches()), (11, 5));
/// let mut pass: Vec<u64> = (0..5).flat_map(|step| bucketed.batch_at(step)).flatten().collect();
/// pass.sort_unstable();
/// assert!(pass.into_iter().eq(0..11));
/// # Ok::<(), zsampler::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Bucketed {
    parts: Arc<Parts>,
}

#[derive(Debug)]
struct Parts {
    buckets: Vec<Bucket>,
    length: u64,
    /// Of a pass.
    batches: u64,
    /// Of the places of a pass.
    domain: Domain,
    mode: Mode,
    seed: u64,
}

/// One of the buckets, which is never without a batch.
#[derive(Debug)]
struct Bucket {
    /// Its first record.
    first: u64,
    /// The place in a pass, before that is shuffled, of its first batch.
    before: u64,
    /// Batches in a pass.
    batches: u64,
    batch_size: u64,
    order: Order,
}

/// A batch of a step: which bucket it is of, and the number that it has among all batches of the bucket.
struct Found<'a> {
    bucket: &'a Bucket,
    batch: u64,
}

impl Bucketed {
    /// Buckets of so many records, each with its batch size.
    ///
    /// # Errors
    /// [`Error::NoBuckets`], [`Error::TooManyBuckets`] above [`MAX_BUCKETS`]; [`Error::EmptyBatch`],
    /// [`Error::BatchTooLarge`]; [`Error::ShortBucket`] for one that has fewer records than a batch;
    /// [`Error::BucketsOverflow`] for more than 2^64 - 1 records in all; [`Error::IidBuckets`] for that mode.
    pub fn new(buckets: &[(u64, u64)], mode: Mode, seed: u64) -> Result<Self, Error> {
        if mode == Mode::Iid {
            return Err(Error::IidBuckets);
        }
        let found = buckets.len() as u64;
        if found == 0 {
            return Err(Error::NoBuckets);
        }
        if found > MAX_BUCKETS {
            return Err(Error::TooManyBuckets { found });
        }
        let (mut length, mut batches) = (0_u64, 0);
        let mut made = Vec::with_capacity(buckets.len());
        for (number, &(records, batch_size)) in (0..).zip(buckets) {
            let bucket = Bucket::new(number, records, batch_size, [length, batches], mode, seed)?;
            length = length.checked_add(records).ok_or(Error::BucketsOverflow)?;
            // At most as many as records.
            batches += bucket.batches;
            made.push(bucket);
        }
        let domain = Domain::new(batches);
        Ok(Self { parts: Arc::new(Parts { buckets: made, length, batches, domain, mode, seed }) })
    }

    /// The number of records of all buckets: every index is below it.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.parts.length
    }

    /// The number of batches in a pass.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.parts.batches
    }

    /// The order of the records of each bucket.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.parts.mode
    }

    /// The seed. Sequential order does not depend on it.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.parts.seed
    }

    /// The batch size of each bucket.
    pub fn batch_sizes(&self) -> impl Iterator<Item = u64> + '_ {
        self.parts.buckets.iter().map(|bucket| bucket.batch_size)
    }

    /// The bucket of a step's batch, from 0, and the size of that batch.
    #[must_use]
    pub fn bucket_at(&self, step: u64) -> (usize, u64) {
        let number = self.parts.number(self.parts.place(step));
        (number, self.parts.buckets.get(number).map_or(0, |bucket| bucket.batch_size))
    }

    /// The batch of a step.
    ///
    /// # Errors
    /// [`Error::StepTooLarge`] past [`MAX_STEP`].
    pub fn batch_at(&self, step: u64) -> Result<Vec<u64>, Error> {
        // At most MAX_BATCH_SIZE, which a usize holds wherever that many indices fit in memory.
        let mut batch = vec![0; usize::try_from(self.bucket_at(step).1).unwrap_or(usize::MAX)];
        self.fill_range(step, 0, &mut batch)?;
        Ok(batch)
    }

    /// A part of a step's batch, the places from `start` on, into `out`, without allocating.
    ///
    /// It takes the binary logarithm of the buckets, keys of two permutations, and constant time for each place.
    ///
    /// # Errors
    /// [`Error::StepTooLarge`] past [`MAX_STEP`], [`Error::RangeBeyondBatch`] if the part reaches beyond the batch; `out` is
    /// then untouched.
    pub fn fill_range(&self, step: u64, start: u64, out: &mut [u64]) -> Result<(), Error> {
        if step > MAX_STEP {
            return Err(Error::StepTooLarge { step });
        }
        let found = self.parts.find(step);
        let (count, batch_size) =
            (out.len() as u64, found.as_ref().map_or(0, |found| found.bucket.batch_size));
        if start > batch_size || count > batch_size - start {
            return Err(Error::RangeBeyondBatch { start, count, batch_size });
        }
        if let Some(found) = found.filter(|_| !out.is_empty()) {
            found.fill(start, out);
        }
        Ok(())
    }
}

impl Bucket {
    fn new(
        number: u64,
        records: u64,
        batch_size: u64,
        [first, before]: [u64; 2],
        mode: Mode,
        seed: u64,
    ) -> Result<Self, Error> {
        check_batch_size(batch_size)?;
        if records < batch_size {
            return Err(Error::ShortBucket { bucket: number, records, batch_size });
        }
        let order = Order::new(records, batch_size, mode, derive(seed, Purpose::Bucket, number, 0));
        Ok(Self { first, before, batches: records / batch_size, batch_size, order })
    }
}

impl Parts {
    /// The place of a step's batch in a pass that is not shuffled.
    fn place(&self, step: u64) -> u64 {
        let mut place = step % self.batches;
        if self.mode == Mode::Cyclic {
            let pass = Permutation::new(self.domain, self.seed, Purpose::Pass, step / self.batches);
            pass.fill(Kernel::best(), place, slots::of(std::slice::from_mut(&mut place)));
        }
        place
    }

    /// The bucket of a place.
    fn number(&self, place: u64) -> usize {
        self.buckets.partition_point(|bucket| bucket.before <= place).saturating_sub(1)
    }

    /// There always is one: there are buckets, and each has a batch. The step is at most [`MAX_STEP`].
    fn find(&self, step: u64) -> Option<Found<'_>> {
        let place = self.place(step);
        let bucket = self.buckets.get(self.number(place))?;
        // Less than the step and a pass. In the first pass the first of the two terms is 0, later the pass is no longer than the step.
        let batch = step / self.batches * bucket.batches + (place - bucket.before);
        Some(Found { bucket, batch })
    }
}

impl Found<'_> {
    /// `out` is not empty and lies within the batch.
    fn fill(&self, start: u64, out: &mut [u64]) {
        let Bucket { first, batch_size, ref order, .. } = *self.bucket;
        order.fill(Kernel::best(), batch_size, self.batch, start, slots::of(out));
        out.iter_mut().for_each(|index| *index += first);
    }
}
