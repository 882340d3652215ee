//! Which records a step reads: an order, one rank's share of its places, and the records that are drawn from.

use std::ops::Range;

use zsampler::{Bucketed, MAX_STEP, Mixture, Sampler, Weighted};

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
    rank: Rank,
    most: usize,
    /// One a component.
    tables: Vec<Option<Table>>,
}

#[derive(Debug)]
enum Order {
    Sampled(Sampler),
    Weighted(Weighted),
    Mixed(Mixture),
    Bucketed(Bucketed),
}

impl Order {
    /// Records of a step, of all ranks together.
    fn batch_size(&self, step: u64) -> u64 {
        match self {
            Self::Sampled(sampler) => sampler.batch_size(),
            Self::Weighted(weighted) => weighted.batch_size(),
            Self::Mixed(mixture) => mixture.batch_size(),
            Self::Bucketed(bucketed) => bucketed.bucket_at(step).1,
        }
    }

    /// All that [`Order::batch_size`] gives.
    fn batch_sizes(&self) -> Vec<u64> {
        match self {
            Self::Bucketed(bucketed) => bucketed.batch_sizes().collect(),
            _ => vec![self.batch_size(0)],
        }
    }
}

impl Draws {
    /// The batches of a sampler; with a table, its indices are places in that.
    ///
    /// # Errors
    /// [`Error::Order`] for a rank that isn't; [`Error::InvalidArgument`] for a table that is not as long as the sampler's space.
    pub fn sampled(sampler: Sampler, rank: Rank, table: Option<Table>) -> Result<Self> {
        let length = sampler.length();
        Self::new(Order::Sampled(sampler), rank, &[length], vec![table])
    }

    /// Draws in proportion to weights; with a table, indices are places in that.
    ///
    /// # Errors
    /// As [`Draws::sampled`].
    pub fn weighted(weighted: Weighted, rank: Rank, table: Option<Table>) -> Result<Self> {
        let length = weighted.length();
        Self::new(Order::Weighted(weighted), rank, &[length], vec![table])
    }

    /// Batches that are each of one bucket; with a table, indices are places in that.
    ///
    /// # Errors
    /// As [`Draws::sampled`].
    pub fn bucketed(bucketed: Bucketed, rank: Rank, table: Option<Table>) -> Result<Self> {
        let length = bucketed.length();
        Self::new(Order::Bucketed(bucketed), rank, &[length], vec![table])
    }

    /// Draws from several components by share; a component with a table has places in that for indices.
    ///
    /// # Errors
    /// As [`Draws::sampled`], and [`Error::InvalidArgument`] if there is not one entry in `tables` for each component.
    pub fn mixed(mixture: Mixture, rank: Rank, tables: Vec<Option<Table>>) -> Result<Self> {
        let lengths = mixture.lengths().to_vec();
        Self::new(Order::Mixed(mixture), rank, &lengths, tables)
    }

    fn new(order: Order, rank: Rank, lengths: &[u64], tables: Vec<Option<Table>>) -> Result<Self> {
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
        let mut most = 0;
        for batch_size in order.batch_sizes() {
            most = most.max(count(&share(batch_size, rank)?)?);
        }
        Ok(Self { order, rank, most, tables })
    }

    /// Records of a step of this rank; the most that a step has, where batches differ in size.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.most
    }

    /// The places of a step's batch that are this rank's.
    ///
    /// # Errors
    /// None for a rank that [`Draws::sampled`] and its like took.
    pub fn places(&self, step: u64) -> Result<Range<u64>> {
        share(self.order.batch_size(step), self.rank)
    }

    /// The bucket that a step's batch is of; 0 where there are none.
    #[must_use]
    pub fn bucket_at(&self, step: u64) -> usize {
        match &self.order {
            Order::Bucketed(bucketed) => bucketed.bucket_at(step).0,
            _ => 0,
        }
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
        let places = self.places(step)?;
        let (mut indices, start) = (zeros(count(&places)?)?, places.start);
        let sources = match &self.order {
            Order::Sampled(sampler) => {
                sampler.fill_range(step, start, &mut indices)?;
                None
            }
            Order::Weighted(weighted) => {
                weighted.fill_range(step, start, &mut indices)?;
                None
            }
            Order::Mixed(mixture) => {
                let mut sources = zeros(indices.len())?;
                mixture.fill_range(step, start, &mut sources, &mut indices)?;
                Some(sources)
            }
            Order::Bucketed(bucketed) => {
                bucketed.fill_range(step, start, &mut indices)?;
                None
            }
        };
        self.look_up(sources.as_deref(), &mut indices)?;
        Ok(Drawn { indices, sources })
    }

    /// Put records in the place of places in tables.
    fn look_up(&self, sources: Option<&[u32]>, indices: &mut [u64]) -> Result<()> {
        if let [table] = &self.tables[..] {
            return table.iter().try_for_each(|table| indices.iter_mut().try_for_each(|i| table.look_up(i)));
        }
        for (index, &source) in indices.iter_mut().zip(sources.unwrap_or_default()) {
            if let Some(Some(table)) = self.tables.get(source as usize) {
                table.look_up(index)?;
            }
        }
        Ok(())
    }
}

fn share(batch_size: u64, rank: Rank) -> Result<Range<u64>> {
    Ok(zsampler::share(batch_size, rank.rank, rank.world_size)?)
}

fn count(places: &Range<u64>) -> Result<usize> {
    let count = places.end - places.start;
    usize::try_from(count).map_err(|_| Error::OutOfMemory { bytes: count.saturating_mul(8) })
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
    fn ranks_share_what_is_weighted_or_mixed() {
        let weighted = Weighted::new(&[1.0, 0.0, 2.5], 9, 5).unwrap();
        let mixture =
            Mixture::new(&[30, 7, 100], 9, Mode::Cyclic, 5, &[(0, vec![1.0, 2.0, 3.0])], false).unwrap();
        for world_size in [1, 2, 4, 10] {
            let ranks = || (0..world_size).map(|rank| Rank { rank, world_size });
            for step in [0, 8, MAX_STEP] {
                let part = |rank| Draws::weighted(weighted.clone(), rank, None).unwrap().draw(step).unwrap();
                let parts: Vec<u64> = ranks().flat_map(|rank| part(rank).indices).collect();
                assert_eq!(parts, weighted.batch_at(step));
                let tables = || vec![None, Some(Table::new(&[70, 71, 72, 73, 74, 75, 76])), None];
                let part = |rank| Draws::mixed(mixture.clone(), rank, tables()).unwrap().draw(step).unwrap();
                let (sources, mut indices) = mixture.batch_at(step);
                for (index, _) in indices.iter_mut().zip(&sources).filter(|(_, source)| **source == 1) {
                    *index += 70;
                }
                let parts: Vec<u64> = ranks().flat_map(|rank| part(rank).indices).collect();
                assert_eq!(parts, indices);
                let parts: Vec<u32> = ranks().flat_map(|rank| part(rank).sources.unwrap()).collect();
                assert_eq!(parts, sources);
            }
        }
        assert_eq!(
            Draws::mixed(mixture.clone(), Rank::ALONE, vec![None, None, None]).unwrap().components(),
            3
        );
        assert!(Draws::mixed(mixture, Rank::ALONE, vec![None]).is_err());
    }

    #[test]
    fn ranks_share_batches_of_several_sizes() {
        let bucketed = Bucketed::new(&[(50, 12), (20, 6), (7, 3)], Mode::Cyclic, 5).unwrap();
        let table: Vec<u64> = (0..77).map(|record| 1000 - record).collect();
        for world_size in [1, 2, 3, 5] {
            let draws = |rank| {
                let rank = Rank { rank, world_size };
                Draws::bucketed(bucketed.clone(), rank, Some(Table::new(&table))).unwrap()
            };
            let ranks: Vec<Draws> = (0..world_size).map(draws).collect();
            for step in (0..20).chain([MAX_STEP]) {
                let expected = bucketed.batch_at(step).unwrap().into_iter().map(|index| 1000 - index);
                let parts: Vec<u64> =
                    ranks.iter().flat_map(|draws| draws.draw(step).unwrap().indices).collect();
                assert!(expected.eq(parts));
                for rank in &ranks {
                    let places = rank.places(step).unwrap();
                    assert_eq!(rank.draw(step).unwrap().indices.len() as u64, places.end - places.start);
                    assert!(rank.count() as u64 >= places.end - places.start);
                    assert_eq!(rank.bucket_at(step), bucketed.bucket_at(step).0);
                }
            }
            assert_eq!(ranks.iter().map(Draws::count).sum::<usize>(), 12);
        }
        assert!(Draws::bucketed(bucketed, Rank::ALONE, Some(Table::new(&[1]))).is_err());
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
