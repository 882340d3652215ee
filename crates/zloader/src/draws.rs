//! Which records a step reads: an order, one rank's share of its places, and the records that are drawn from.

use std::ops::Range;

use zsampler::{MAX_STEP, Sampler};

use crate::error::{Error, Result};
use crate::table::Table;

/// One of several processes that share each batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    /// Its number, from 0 on.
    pub rank: u64,
    /// How many there are.
    pub world_size: u64,
}

impl Rank {
    /// The only one.
    pub const ALONE: Self = Self { rank: 0, world_size: 1 };

    /// Its places of a batch.
    fn share(self, batch_size: u64) -> Result<Range<u64>> {
        let Self { rank, world_size } = self;
        if rank >= world_size {
            return Err(Error::InvalidArgument(format!("there is no rank {rank} of {world_size}")));
        }
        let end = |rank: u64| {
            // At most `batch_size`.
            u64::try_from(u128::from(batch_size) * u128::from(rank) / u128::from(world_size))
                .unwrap_or(batch_size)
        };
        Ok(end(rank)..end(rank + 1))
    }
}

/// What a step reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Drawn {
    /// The records, in the order of the batch.
    pub indices: Vec<u64>,
    /// Which component each of them is of; `None` where there is but one.
    pub sources: Option<Vec<u32>>,
}

/// Which records a step reads, for one rank. A pure function of the step.
#[derive(Debug)]
pub struct Draws {
    order: Order,
    share: Range<u64>,
    count: usize,
    /// One a component.
    tables: Vec<Option<Table>>,
}

#[derive(Debug)]
enum Order {
    Sampled(Sampler),
}

impl Draws {
    /// The batches of a sampler; with a table, its indices are places in that.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a rank that isn't, or a table that is not as long as the sampler's space.
    pub fn sampled(sampler: Sampler, rank: Rank, table: Option<Table>) -> Result<Self> {
        let (length, batch_size) = (sampler.length(), sampler.batch_size());
        Self::new(Order::Sampled(sampler), batch_size, rank, &[length], vec![table])
    }

    fn new(
        order: Order,
        batch_size: u64,
        rank: Rank,
        lengths: &[u64],
        tables: Vec<Option<Table>>,
    ) -> Result<Self> {
        if tables.len() != lengths.len() {
            let (found, expected) = (tables.len(), lengths.len());
            return Err(Error::InvalidArgument(format!("got {found} tables for {expected} components")));
        }
        for (table, &length) in tables.iter().zip(lengths) {
            if let Some(found) = table.as_ref().map(Table::len).filter(|&found| found != length) {
                let why = format!("a table of {found} entries can't stand for {length} records");
                return Err(Error::InvalidArgument(why));
            }
        }
        let share = rank.share(batch_size)?;
        let too_large = |_| Error::OutOfMemory { bytes: batch_size.saturating_mul(8) };
        let count = usize::try_from(share.end - share.start).map_err(too_large)?;
        Ok(Self { order, share, count, tables })
    }

    /// Records of a step.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Components that records are drawn from; 1 where [`Drawn::sources`] is `None`.
    #[must_use]
    pub fn components(&self) -> usize {
        self.tables.len()
    }

    /// The records of a step.
    ///
    /// # Errors
    /// [`zsampler::Error::StepTooLarge`] past [`MAX_STEP`]; [`Error::OutOfMemory`].
    pub fn draw(&self, step: u64) -> Result<Drawn> {
        if step > MAX_STEP {
            return Err(zsampler::Error::StepTooLarge { step }.into());
        }
        let mut indices = zeros(self.count)?;
        match &self.order {
            Order::Sampled(sampler) => {
                sampler.fill_range(step, self.share.start, &mut indices)?;
                if let Some(Some(table)) = self.tables.first() {
                    indices.iter_mut().try_for_each(|index| table.look_up(index))?;
                }
                Ok(Drawn { indices, sources: None })
            }
        }
    }
}

fn zeros<T: Clone + Default>(count: usize) -> Result<Vec<T>> {
    let mut numbers = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>()) as u64;
    numbers.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { bytes })?;
    numbers.resize(count, T::default());
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsampler::Mode;

    #[test]
    fn ranks_share_the_batch_of_one() {
        for mode in [Mode::Sequential, Mode::Iid, Mode::Cyclic] {
            let sampler = Sampler::new(100, 7, mode, 3).unwrap();
            for world_size in [1, 2, 3, 7, 10] {
                let ranks: Vec<Draws> = (0..world_size)
                    .map(|rank| Draws::sampled(sampler.clone(), Rank { rank, world_size }, None).unwrap())
                    .collect();
                for step in [0, 1, 99, MAX_STEP] {
                    let parts: Vec<u64> =
                        ranks.iter().flat_map(|draws| draws.draw(step).unwrap().indices).collect();
                    assert_eq!(parts, sampler.batch_at(step));
                }
                assert_eq!(ranks.iter().map(Draws::count).sum::<usize>(), 7);
            }
        }
    }

    #[test]
    fn a_table_stands_between() {
        let sampler = Sampler::new(3, 2, Mode::Sequential, 0).unwrap();
        let draws = Draws::sampled(sampler.clone(), Rank::ALONE, Some(Table::new(&[9, 1 << 40, 4]))).unwrap();
        assert_eq!(draws.draw(0).unwrap(), Drawn { indices: vec![9, 1 << 40], sources: None });
        assert_eq!(draws.draw(1).unwrap().indices, [4, 9]);
        assert!(Draws::sampled(sampler, Rank::ALONE, Some(Table::new(&[1]))).is_err());
    }

    #[test]
    fn what_is_not_to_be_had() {
        let sampler = Sampler::new(3, 2, Mode::Sequential, 0).unwrap();
        for (rank, world_size) in [(0, 0), (1, 1), (u64::MAX, u64::MAX)] {
            assert!(Draws::sampled(sampler.clone(), Rank { rank, world_size }, None).is_err());
        }
        let draws = Draws::sampled(sampler, Rank::ALONE, None).unwrap();
        assert!(draws.draw(MAX_STEP + 1).is_err());
        let endless = Sampler::new(3, zsampler::MAX_BATCH_SIZE, Mode::Sequential, 0).unwrap();
        let draws = Draws::sampled(endless, Rank::ALONE, None).unwrap();
        assert!(matches!(draws.draw(0), Err(Error::OutOfMemory { .. })));
    }
}
