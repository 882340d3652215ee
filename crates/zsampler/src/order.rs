//! From a position in the endless stream to an index, for each mode.
//!
//! The state of all order is one number: step `s` of batches of `B` covers the positions `s * B .. (s + 1) * B`.
//! Sequential and iid are functions of the position. Cyclic cuts the stream into cycles of whole batches first,
//! so that a batch never meets the end of a cycle. Parts of a batch, threads and prefetch are slices of the
//! stream and never change it.

use crate::permute::{Domain, Permutation};
use crate::rng::{Purpose, Range, derive, high, low, splitmix_at};
use crate::{Error, MAX_STEP, Mode};

/// The version of the order. Equal versions, lengths, batch sizes, modes and seeds give equal batches, on every
/// machine; a state saved under another version must be refused.
pub const ORDER_VERSION: u32 = 1;

/// An endless stream of indices, and the batches it falls into.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    Sequential { length: u64 },
    Iid { range: Range, seed: u64 },
    Cyclic { domain: Domain, batches: u64, seed: u64 },
}

impl Order {
    /// The order of a mode. `length` and `batch_size` are not 0, and a cyclic batch is no longer than `length`:
    /// the caller has refused the rest.
    pub(crate) fn new(length: u64, batch_size: u64, mode: Mode, seed: u64) -> Self {
        match mode {
            Mode::Sequential => Self::Sequential { length },
            Mode::Iid => Self::Iid { range: Range::new(length), seed },
            Mode::Cyclic => Self::Cyclic { domain: Domain::new(length), batches: length / batch_size, seed },
        }
    }

    /// The indices at the places from `start` on of the batch of `step`. They lie within the batch.
    pub(crate) fn fill(&self, batch_size: u64, step: u64, start: u64, out: &mut [u64]) {
        // Below 2^64 * 2^60 + 2^60: positions never wrap.
        let position = u128::from(step) * u128::from(batch_size) + u128::from(start);
        match *self {
            Self::Sequential { length } => fill_sequential(length, position, out),
            Self::Iid { range, seed } => fill_iid(range, seed, position, out),
            Self::Cyclic { domain, batches, seed } => {
                let place = step % batches * batch_size + start;
                Permutation::new(domain, seed, step / batches).fill(place, out);
            }
        }
    }

    /// The first step from `step` on whose batch holds `index`, and its place there; see `Sampler::next_draw`.
    pub(crate) fn next_draw(
        &self,
        batch_size: u64,
        index: u64,
        step: u64,
    ) -> Result<Option<(u64, u64)>, Error> {
        let never = Error::NeverDrawn { index, step };
        match *self {
            Self::Sequential { length } => {
                let (size, length) = (u128::from(batch_size), u128::from(length));
                let from = u128::from(step) * size;
                let wait = (u128::from(index) + length - from % length) % length;
                let drawn = (from + wait) / size;
                if drawn > u128::from(MAX_STEP) {
                    return Err(never);
                }
                Ok(Some((low(drawn), low((from + wait) % size))))
            }
            Self::Iid { .. } => Ok(None),
            Self::Cyclic { domain, batches, seed } => {
                // A cycle misses when the record came before `step` in it (at most the first) or fell into its
                // remainder, which is less than half of the records: fewer than three cycles are expected.
                for cycle in step / batches.. {
                    let place = Permutation::new(domain, seed, cycle).place(index);
                    let drawn = u128::from(cycle) * u128::from(batches) + u128::from(place / batch_size);
                    let in_remainder = place / batch_size >= batches;
                    if !in_remainder && drawn > u128::from(MAX_STEP) {
                        return Err(never);
                    }
                    if !in_remainder && drawn >= u128::from(step) {
                        return Ok(Some((low(drawn), place % batch_size)));
                    }
                }
                Err(never)
            }
        }
    }
}

fn fill_sequential(length: u64, position: u128, out: &mut [u64]) {
    let mut index = low(position % u128::from(length));
    let mut rest = out;
    while !rest.is_empty() {
        // What is left of the circle; more than the batch can be long is as good as the batch.
        let run = usize::try_from(length - index).unwrap_or(usize::MAX).min(rest.len());
        let (now, later) = rest.split_at_mut(run);
        for (slot, index) in now.iter_mut().zip(index..) {
            *slot = index;
        }
        (index, rest) = (0, later);
    }
}

fn fill_iid(range: Range, seed: u64, position: u128, out: &mut [u64]) {
    let mut position = position;
    let mut rest = out;
    while !rest.is_empty() {
        // One key serves 2^64 positions, so a batch meets its end only in tests.
        let left = u64::MAX - low(position);
        let run = usize::try_from(left).unwrap_or(usize::MAX).saturating_add(1).min(rest.len());
        let (now, later) = rest.split_at_mut(run);
        let (epoch, first) = (high(position), low(position));
        let key = derive(seed, Purpose::Iid, epoch, 0);
        for (slot, offset) in now.iter_mut().zip(0..) {
            let counter = first + offset;
            *slot = match range.reduce(splitmix_at(key, counter)) {
                Some(index) => index,
                None => redraw(range, seed, epoch, counter),
            };
        }
        position += run as u128;
        rest = later;
    }
}

/// What to draw where the first word is rejected: the same counter of the next streams, until a word is accepted.
#[cold]
fn redraw(range: Range, seed: u64, epoch: u64, counter: u64) -> u64 {
    // Half of the words are accepted at the least, so the search does not get far.
    (1..)
        .find_map(|attempt| range.reduce(splitmix_at(derive(seed, Purpose::Iid, epoch, attempt), counter)))
        .unwrap_or(0)
}
