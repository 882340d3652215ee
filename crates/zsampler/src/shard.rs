//! The part of a batch that is a rank's.

use std::ops::Range;

use crate::Error;
use crate::rng::low;

/// The places of a batch that rank `rank` of `world_size` takes: from `floor(batch_size * rank / world_size)` up to the
/// first place of the next rank. The parts of all ranks are the batch, and their sizes differ by one at most.
///
/// ```
/// assert_eq!(zsampler::share(10, 1, 4)?, 2..5);
/// # Ok::<(), zsampler::Error>(())
/// ```
///
/// # Errors
/// [`Error::EmptyWorld`] and [`Error::RankOutOfRange`].
pub fn share(batch_size: u64, rank: u64, world_size: u64) -> Result<Range<u64>, Error> {
    if world_size == 0 {
        return Err(Error::EmptyWorld);
    }
    if rank >= world_size {
        return Err(Error::RankOutOfRange { rank, world_size });
    }
    // At most the batch size, so the low half is all of it.
    let first = |rank: u128| low(u128::from(batch_size) * rank / u128::from(world_size));
    Ok(first(u128::from(rank))..first(u128::from(rank) + 1))
}
