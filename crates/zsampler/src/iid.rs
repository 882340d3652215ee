//! Independent draws: a keyed counter, brought into range.

use std::mem::MaybeUninit;

use crate::lanes::{Kernel, Lanes, One, Task};
use crate::rng::{GAMMA, Purpose, Range, derive, high, low, splitmix, splitmix_at, splitmix_upper};

/// Vectors drawn side by side, and single numbers beside them where those have a multiplier of their own: measured, see
/// `docs/decisions/0002-sampler-order.md`.
const GROUP: usize = 2;
const BESIDE: usize = 4;
/// Up to this bound the upper half of a word tells the index but for one time in 256 or fewer.
const SMALL: u32 = 1 << 24;

/// The indices at the positions from `position` on.
pub(crate) fn fill(kernel: Kernel, range: Range, seed: u64, position: u128, out: &mut [MaybeUninit<u64>]) {
    let mut position = position;
    let mut rest = out;
    while !rest.is_empty() {
        // One key serves 2^64 positions, so a batch meets its end only in tests.
        let left = u64::MAX - low(position);
        let run = usize::try_from(left).unwrap_or(usize::MAX).saturating_add(1).min(rest.len());
        let (now, later) = rest.split_at_mut(run);
        let draws = Draws::new(range, seed, position);
        match u32::try_from(range.bound()) {
            Ok(bound) if bound <= SMALL => kernel.run(Narrow::<true> { draws, bound, out: now }),
            Ok(bound) => kernel.run(Narrow::<false> { draws, bound, out: now }),
            Err(_) => draws.one_by_one(0, now),
        }
        position += run as u128;
        rest = later;
    }
}

/// As [`fill`], for the positions at these offsets from `position`, each of which its index replaces.
pub(crate) fn pick(range: Range, seed: u64, position: u128, offsets: &mut [u64]) {
    let draws = Draws::new(range, seed, position);
    for slot in offsets {
        *slot = match draws.first.checked_add(*slot) {
            Some(counter) => draws.at(counter),
            // The next key's, and so only in tests.
            None => Draws::new(range, seed, position + u128::from(*slot)).at(draws.first.wrapping_add(*slot)),
        };
    }
}

/// Draws that share a key.
#[derive(Clone, Copy)]
struct Draws {
    range: Range,
    seed: u64,
    epoch: u64,
    first: u64,
    key: u64,
}

impl Draws {
    fn new(range: Range, seed: u64, position: u128) -> Self {
        let (epoch, first) = (high(position), low(position));
        Self { range, seed, epoch, first, key: derive(seed, Purpose::Iid, epoch, 0) }
    }

    /// The draws from `from` on, the way every length takes.
    #[inline(never)]
    fn one_by_one(self, from: usize, out: &mut [MaybeUninit<u64>]) {
        if out.is_empty() {
            return;
        }
        let start = self.first.wrapping_add(from as u64);
        for (slot, offset) in out.iter_mut().zip(0..) {
            let counter = start.wrapping_add(offset);
            slot.write(self.at(counter));
        }
    }

    /// The draw at a counter of this key.
    #[inline(always)]
    fn at(self, counter: u64) -> u64 {
        match self.range.reduce(splitmix_at(self.key, counter)) {
            Some(index) => index,
            None => self.redraw(counter),
        }
    }

    /// What to draw where the first word is rejected: the same counter of the next streams, until a word is accepted.
    #[cold]
    fn redraw(self, counter: u64) -> u64 {
        // Half of the words are accepted at the least, so the search does not get far.
        (1..)
            .find_map(|attempt| {
                self.range.reduce(splitmix_at(derive(self.seed, Purpose::Iid, self.epoch, attempt), counter))
            })
            .unwrap_or(0)
    }
}

/// Draws below 2^32, several at once.
struct Narrow<'a, const SMALL: bool> {
    draws: Draws,
    bound: u32,
    out: &'a mut [MaybeUninit<u64>],
}

impl<const SMALL: bool> Task for Narrow<'_, SMALL> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { draws, bound, out } = self;
        let start = draws.key.wrapping_add(draws.first.wrapping_add(1).wrapping_mul(GAMMA));
        let mixed = SMALL && L::MIXED;
        let vectors = GROUP * L::COUNT;
        let size = if mixed { vectors + BESIDE } else { vectors };
        let mut beside =
            Beside { state: start, skip: GAMMA.wrapping_mul(vectors as u64), bound: u64::from(bound) };
        let first = if mixed { start.wrapping_add(GAMMA.wrapping_mul(BESIDE as u64)) } else { start };
        let mut stream = Stream::<L, GROUP, SMALL>::new(lanes, first, size, bound);

        let mut done = 0;
        let mut groups = out.chunks_exact_mut(size);
        for group in groups.by_ref() {
            let (single, vectors) = group.split_at_mut(size - vectors);
            let mut single = single.iter_mut();
            let mut doubt = 0;
            let doubt_vectors = stream.draw(vectors, || {
                if mixed && let Some(slot) = single.next() {
                    doubt |= beside.draw(lanes, slot);
                }
            });
            // None is left, since `splitmix_upper` has a place for each.
            for slot in single {
                doubt |= beside.draw(lanes, slot);
            }
            beside.state = beside.state.wrapping_add(beside.skip);
            if doubt_vectors || doubt >> 32 != 0 {
                draws.one_by_one(done, group);
            }
            done += size;
        }
        draws.one_by_one(done, groups.into_remainder());
    }
}

/// The single numbers of every group, below a small bound.
struct Beside {
    state: u64,
    /// Over the vectors of a group.
    skip: u64,
    bound: u64,
}

impl Beside {
    /// The next draw, as [`Stream::draw`] makes it, and whether it is in doubt: in the upper half.
    #[inline(always)]
    fn draw<L: Lanes>(&mut self, lanes: L, slot: &mut MaybeUninit<u64>) -> u64 {
        let mut word = [self.state];
        splitmix_upper(One, &mut word, || ());
        let [word] = word;
        let product = lanes.single(word) * self.bound;
        slot.write(product >> 32);
        self.state = self.state.wrapping_add(GAMMA);
        product.wrapping_sub(1) ^ (product + self.bound)
    }
}

/// `N` vectors of every group.
struct Stream<L: Lanes, const N: usize, const SMALL: bool> {
    lanes: L,
    states: [L::Vector; N],
    step: L::Vector,
    bound: L::Vector,
    /// A draw is in doubt where the middle 32 bits less one are this or more.
    doubtful: u32,
}

impl<L: Lanes, const N: usize, const SMALL: bool> Stream<L, N, SMALL> {
    /// From the SplitMix64 state `start` on, going on by `size` draws each time.
    #[inline(always)]
    fn new(lanes: L, start: u64, size: usize, bound: u32) -> Self {
        let mut states = [lanes.splat(0); N];
        for (vector, states) in (0..).zip(&mut states) {
            *states = lanes.ramp(start.wrapping_add(GAMMA.wrapping_mul(vector * L::COUNT as u64)), GAMMA);
        }
        Self {
            lanes,
            states,
            step: lanes.splat(GAMMA.wrapping_mul(size as u64)),
            bound: lanes.splat(u64::from(bound)),
            doubtful: if SMALL { u32::MAX - bound } else { u32::MAX },
        }
    }

    /// The next draws, and whether any of them is in doubt.
    #[inline(always)]
    fn draw(&mut self, out: &mut [MaybeUninit<u64>], meanwhile: impl FnMut()) -> bool {
        let lanes = self.lanes;
        let mut products = self.states;
        for states in &mut self.states {
            *states = lanes.add(*states, self.step);
        }
        // The product of a word and the bound has 96 bits, of which the upper 32 are the index. The word is rejected,
        // if at all, where the middle 32 are 0. A small bound's lower product is left out: it adds less than the
        // bound, which may carry.
        if SMALL {
            splitmix_upper(lanes, &mut products, meanwhile);
            for product in &mut products {
                *product = lanes.times_low(*product, self.bound);
            }
        } else {
            splitmix(lanes, &mut products);
            for product in &mut products {
                let lower = lanes.shift_right(lanes.times_low(*product, self.bound), 32);
                *product = lanes.add(lanes.times_low(lanes.upper(*product), self.bound), lower);
            }
        }
        let mut highest = lanes.splat(0);
        for (slots, product) in out.chunks_exact_mut(L::COUNT).zip(products) {
            lanes.store(lanes.shift_right(product, 32), slots);
            highest = lanes.max_lower(highest, lanes.add(product, lanes.splat(u64::MAX)));
        }
        lanes.any_lower(highest, self.doubtful)
    }
}

#[cfg(test)]
mod tests;
