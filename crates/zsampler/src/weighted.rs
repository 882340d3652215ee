//! Draws with replacement in proportion to weights.

use std::sync::Arc;

use crate::Error;
use crate::alias::{self, Column};
use crate::rng::{Purpose, Range, derive, high, low, splitmix_at};
use crate::sampler::check_batch_size;
use crate::weights::Fault;

/// The most weights there can be, 2^31.
pub const MAX_WEIGHTS: u64 = 1 << 31;

/// Draws made side by side: all columns are known before the first is looked at, so that the processor fetches many at once
/// where the table is larger than its caches.
const BLOCK: usize = 256;

/// Index batches drawn independently in proportion to weights, as a pure function of (seed, step).
///
/// Like iid order it is one endless stream, whatever the batch size; only that record `i` comes with probability
/// `weights[i] / sum`. It takes 16 bytes a weight, which clones share. An item of weight 0 is never drawn.
///
/// ```
/// use zsampler::Weighted;
///
/// let weighted = Weighted::new(&[1.0, 0.0, 3.0], 1000, 42)?;
/// let twos = weighted.batch_at(0).iter().filter(|&&index| index == 2).count();
/// assert!((700..800).contains(&twos));
/// # Ok::<(), zsampler::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Weighted {
    columns: Arc<Vec<Column>>,
    range: Range,
    batch_size: u64,
    seed: u64,
}

impl Weighted {
    /// Batches of `batch_size` indices below the number of weights. It takes time of the order of that number.
    ///
    /// # Errors
    /// [`Error::EmptyBatch`], [`Error::BatchTooLarge`]; [`Error::NoWeights`], [`Error::TooManyWeights`] above
    /// [`MAX_WEIGHTS`], [`Error::BadWeight`] for one that is negative, infinite or no number, [`Error::ZeroWeights`] if
    /// all are 0, [`Error::WeightsOverflow`] if their sum is infinite.
    pub fn new(weights: &[f64], batch_size: u64, seed: u64) -> Result<Self, Error> {
        check_batch_size(batch_size)?;
        let count = weights.len() as u64;
        if count == 0 {
            return Err(Error::NoWeights);
        }
        if count > MAX_WEIGHTS {
            return Err(Error::TooManyWeights { found: count });
        }
        let columns = alias::columns(weights).map_err(|fault| match fault {
            Fault::Bad { index, weight } => Error::BadWeight { index, weight },
            Fault::Zero => Error::ZeroWeights { count },
            Fault::Overflow => Error::WeightsOverflow { count },
        })?;
        Ok(Self { columns: Arc::new(columns), range: Range::new(count), batch_size, seed })
    }

    /// The number of weights: every index is below it.
    pub const fn length(&self) -> u64 {
        self.range.bound()
    }

    /// The number of indices in each batch.
    pub const fn batch_size(&self) -> u64 {
        self.batch_size
    }

    /// The seed.
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// The batch of a step. Every step has one, those past [`MAX_STEP`](crate::MAX_STEP) too.
    pub fn batch_at(&self, step: u64) -> Vec<u64> {
        // At most MAX_BATCH_SIZE, which a usize holds wherever that many indices fit in memory.
        let mut batch = vec![0; usize::try_from(self.batch_size).unwrap_or(usize::MAX)];
        self.fill_places(step, 0, &mut batch);
        batch
    }

    /// A part of a step's batch, the places from `start` on, into `out`, without allocating.
    ///
    /// # Errors
    /// [`Error::RangeBeyondBatch`] if the part reaches beyond the batch; `out` is then untouched.
    pub fn fill_range(&self, step: u64, start: u64, out: &mut [u64]) -> Result<(), Error> {
        let (count, batch_size) = (out.len() as u64, self.batch_size);
        if start > batch_size || count > batch_size - start {
            return Err(Error::RangeBeyondBatch { start, count, batch_size });
        }
        self.fill_places(step, start, out);
        Ok(())
    }

    fn fill_places(&self, step: u64, start: u64, out: &mut [u64]) {
        // Below 2^64 * 2^60 + 2^60: positions never wrap.
        let mut position = u128::from(step) * u128::from(self.batch_size) + u128::from(start);
        let mut rest = out;
        while !rest.is_empty() {
            // One pair of keys serves 2^64 positions, so a batch meets its end only in tests.
            let left = u64::MAX - low(position);
            let run = usize::try_from(left).unwrap_or(usize::MAX).saturating_add(1).min(rest.len());
            let (now, later) = rest.split_at_mut(run);
            self.fill_run(high(position), low(position), now);
            position += run as u128;
            rest = later;
        }
    }

    /// The draws from counter `first` of an epoch on, none of which is in the next one.
    fn fill_run(&self, epoch: u64, first: u64, out: &mut [u64]) {
        let [coin_key, column_key] = [0, 1].map(|word| derive(self.seed, Purpose::Weighted, epoch, word));
        let mut counter = first;
        for block in out.chunks_mut(BLOCK) {
            let mut coins = [0; BLOCK];
            for (slot, coin) in block.iter_mut().zip(&mut coins) {
                *coin = splitmix_at(coin_key, counter);
                *slot = match self.range.reduce(splitmix_at(column_key, counter)) {
                    Some(column) => column,
                    None => self.redraw(epoch, counter),
                };
                counter = counter.wrapping_add(1);
            }
            for (slot, coin) in block.iter_mut().zip(coins) {
                // There are as many columns as the range has values, and those are at most 2^31.
                let column = usize::try_from(*slot).ok().and_then(|column| self.columns.get(column));
                *slot = column.copied().unwrap_or_default().pick(*slot, coin);
            }
        }
    }

    /// The column where the first word is rejected: the same counter of the next streams, until a word is accepted.
    #[cold]
    fn redraw(&self, epoch: u64, counter: u64) -> u64 {
        (2..)
            .find_map(|word| {
                let key = derive(self.seed, Purpose::Weighted, epoch, word);
                self.range.reduce(splitmix_at(key, counter))
            })
            .unwrap_or(0)
    }
}
