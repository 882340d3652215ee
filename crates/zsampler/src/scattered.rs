//! Records of an order at positions that lie anywhere within a stretch of it.

use crate::iid;
use crate::lanes::Kernel;
use crate::order::Order;
use crate::permute::{Domain, Permutation};
use crate::rng::{Purpose, low};

/// Positions at these offsets from `first`, and what follows each wherever it is moved to. All offsets are below `span`.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) first: u128,
    pub(crate) span: u64,
    pub(crate) offsets: &'a mut [u64],
    pub(crate) places: &'a mut [usize],
}

impl Order {
    /// The indices at the wanted positions in the stead of their offsets. The order's batches are of one record.
    ///
    /// Constant time each, but for what the stretch covers of cycles: where it is more than one, the wanted are sorted and
    /// each cycle that is met costs its keys.
    pub(crate) fn pick(&self, kernel: Kernel, wanted: Wanted<'_>) {
        match *self {
            Self::Sequential { length } => pick_sequential(length, wanted),
            Self::Iid { range, seed } => iid::pick(range, seed, wanted.first, wanted.offsets),
            Self::Cyclic { domain, batches, seed } => pick_cyclic(kernel, domain, batches, seed, wanted),
        }
    }
}

fn pick_sequential(length: u64, Wanted { first, span, offsets, .. }: Wanted<'_>) {
    let start = low(first % u128::from(length));
    if span <= length - start {
        offsets.iter_mut().for_each(|slot| *slot += start);
        return;
    }
    for slot in offsets {
        let offset = *slot % length;
        let left = length - start;
        *slot = if offset < left { start + offset } else { offset - left };
    }
}

fn pick_cyclic(kernel: Kernel, domain: Domain, length: u64, seed: u64, wanted: Wanted<'_>) {
    let Wanted { first, span, offsets, places } = wanted;
    if length == 1 {
        offsets.fill(0);
        return;
    }
    let start = low(first % u128::from(length));
    // Of a cycle's number the low half counts: the other is 0 for the first 2^65 records.
    let cycle = low(first / u128::from(length));
    if span <= length - start {
        offsets.iter_mut().for_each(|slot| *slot += start);
        Permutation::new(domain, seed, Purpose::Cyclic, cycle).apply(kernel, offsets);
        return;
    }
    let mut pairs: Vec<(u64, usize)> = offsets.iter().copied().zip(places.iter().copied()).collect();
    pairs.sort_unstable();
    for ((offset, place), pair) in offsets.iter_mut().zip(&mut *places).zip(pairs) {
        (*offset, *place) = pair;
    }
    let mut rest = offsets;
    while let Some(&mut offset) = rest.first_mut() {
        let later = (u128::from(start) + u128::from(offset)) / u128::from(length);
        // The offset at which the cycle begins: before the stretch it is negative, and so it wraps, as the sums below do.
        let begin = low(later).wrapping_mul(length).wrapping_sub(start);
        let run = rest.partition_point(|&offset| offset.wrapping_sub(begin) < length);
        let (now, after) = rest.split_at_mut(run);
        now.iter_mut().for_each(|slot| *slot = slot.wrapping_sub(begin));
        Permutation::new(domain, seed, Purpose::Cyclic, cycle.wrapping_add(low(later))).apply(kernel, now);
        rest = after;
    }
}
