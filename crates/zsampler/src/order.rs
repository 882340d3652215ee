//! From a position in the endless stream to an index, for each mode.
//!
//! The state of all order is one number: step `s` of batches of `B` covers the positions `s * B .. (s + 1) * B`.
//! Sequential and iid are functions of the position. Cyclic cuts the stream into cycles of whole batches first,
//! so that a batch never meets the end of a cycle. Parts of a batch, threads and prefetch are slices of the
//! stream and never change it.

use std::mem::MaybeUninit;

use crate::iid;
use crate::lanes::Kernel;
use crate::permute::{Domain, Permutation};
use crate::rng::{Purpose, Range, low};
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

    /// The indices at the places from `start` on of the batch of `step`, which lie within the batch, into all of `out`.
    pub(crate) fn fill(
        &self,
        kernel: Kernel,
        batch_size: u64,
        step: u64,
        start: u64,
        out: &mut [MaybeUninit<u64>],
    ) {
        // Below 2^64 * 2^60 + 2^60: positions never wrap.
        let position = u128::from(step) * u128::from(batch_size) + u128::from(start);
        match *self {
            Self::Sequential { length } => fill_sequential(length, position, out),
            Self::Iid { range, seed } => iid::fill(kernel, range, seed, position, out),
            Self::Cyclic { domain, batches, seed } => {
                let place = step % batches * batch_size + start;
                Permutation::new(domain, seed, Purpose::Cyclic, step / batches).fill(kernel, place, out);
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
                    let place = Permutation::new(domain, seed, Purpose::Cyclic, cycle).place(index);
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

fn fill_sequential(length: u64, position: u128, out: &mut [MaybeUninit<u64>]) {
    let mut index = low(position % u128::from(length));
    let mut rest = out;
    while !rest.is_empty() {
        // What is left of the circle; more than the batch can be long is as good as the batch.
        let run = usize::try_from(length - index).unwrap_or(usize::MAX).min(rest.len());
        let (now, later) = rest.split_at_mut(run);
        for (slot, index) in now.iter_mut().zip(index..) {
            slot.write(index);
        }
        (index, rest) = (0, later);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots;

    #[test]
    fn every_kernel_gives_the_frozen_batches() {
        let mut compared = 0;
        for line in include_str!("../golden/order-v1.txt").lines().filter(|line| !line.starts_with('#')) {
            let (query, indices) = line.split_once(": ").unwrap();
            let (mode, numbers) = query.split_once(' ').unwrap();
            let mode = match mode {
                "sequential" => Mode::Sequential,
                "iid" => Mode::Iid,
                _ => Mode::Cyclic,
            };
            let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
            let frozen: Vec<u64> = indices.split(' ').map(|index| index.parse().unwrap()).collect();
            let [length, batch_size, seed, step] = numbers[..] else { panic!("four numbers in {line}") };
            let order = Order::new(length, batch_size, mode, seed);
            for kernel in Kernel::all() {
                let mut batch = vec![u64::MAX; frozen.len()];
                order.fill(kernel, batch_size, step, 0, slots::of(&mut batch));
                assert_eq!(batch, frozen, "{kernel:?}, {line}");
                compared += 1;
            }
        }
        assert!(compared > 300, "only {compared} vectors");
    }
}
