//! A keyed bijection on `0..length` and its inverse, in constant memory.
//!
//! A Feistel network permutes the 2^bits numbers of the smallest power of two that holds the length, and
//! cycle-walking brings that into range: what falls outside is permuted again until it falls inside
//! (J. Black and P. Rogaway, "Ciphers with arbitrary finite domains", 2002). The domain is less than twice the
//! length, so fewer than two passes are expected.
//!
//! It is a bijection for every length because nothing in the argument asks what the length is. A round XORs one
//! half with a function of the other and is undone by itself, whatever the widths of the halves, 0 included; a
//! walk follows the cycle of a permutation from an element inside, which comes back inside at the latest at
//! itself; and the walk of the inverse goes the same way back.

mod apply;
#[cfg(test)]
mod tests;

use std::mem::MaybeUninit;

use crate::lanes::{Kernel, Lanes, One, Task};
use crate::rng::{Purpose, derive};
use crate::slots;

/// Vectors permuted side by side: enough to hide how long a multiplication takes.
const GROUP: usize = 4;
/// Numbers whose walks are gathered: a whole number of groups.
const BLOCK: usize = 512;
/// The largest group.
const MAX_GROUP: usize = GROUP * 4;
/// The most pairs of rounds that any domain needs.
const MAX_PAIRS: usize = 16;

/// Rounds come in pairs, one for each half. Of halves of a few bits a round can make only a few permutations, so
/// small domains need more rounds to come near to all: in 8 rounds some orders of 5 records are measurably likelier
/// than others, in 32 none is, and in 6 rounds pairs of records still show it at 9 bits and no longer at 10.
const fn pairs(bits: u32) -> usize {
    match bits {
        0..=8 => MAX_PAIRS,
        9..=16 => 4,
        _ => 3,
    }
}

/// What depends on the length alone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Domain {
    length: u64,
    right_bits: u32,
    left_mask: u64,
    right_mask: u64,
    pairs: usize,
}

impl Domain {
    /// The domain of `0..length`. `length` is not 0: the caller has refused that.
    pub(crate) const fn new(length: u64) -> Self {
        // ceil(log2(length)), at most 64, so neither half is wider than 32 bits.
        let bits = u64::BITS - length.saturating_sub(1).leading_zeros();
        let right_bits = bits / 2;
        let left_bits = bits - right_bits;
        Self {
            length,
            right_bits,
            left_mask: (1 << left_bits) - 1,
            right_mask: (1 << right_bits) - 1,
            pairs: pairs(bits),
        }
    }

    /// Whether the length is a power of two, so that no walk is needed.
    const fn is_full(self) -> bool {
        self.length.is_power_of_two()
    }
}

/// The permutation of one cycle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    domain: Domain,
    keys: [[RoundKey; 2]; MAX_PAIRS],
}

impl Permutation {
    /// The permutation of a cycle, or whatever else it is for. Its round keys cost a hash each, so make it once a batch.
    pub(crate) fn new(domain: Domain, seed: u64, purpose: Purpose, cycle: u64) -> Self {
        let mut keys = [[RoundKey::default(); 2]; MAX_PAIRS];
        for (round, key) in (0..).zip(keys.iter_mut().take(domain.pairs).flatten()) {
            *key = RoundKey::new(derive(seed, purpose, cycle, round));
        }
        Self { domain, keys }
    }

    /// The indices at the places from `place` on, all of them below the length.
    pub(crate) fn fill(&self, kernel: Kernel, place: u64, out: &mut [MaybeUninit<u64>]) {
        kernel.run(Fill { permutation: self, place, out });
    }

    /// The place of an index. `index` is below the length.
    pub(crate) fn place(&self, index: u64) -> u64 {
        let mut number = self.backward(index);
        while number >= self.domain.length {
            number = self.backward(number);
        }
        number
    }

    /// One pass of the rounds.
    #[inline(always)]
    fn forward<L: Lanes>(&self, lanes: L, numbers: &mut [L::Vector; GROUP]) {
        let Domain { right_bits, left_mask, right_mask, pairs, .. } = self.domain;
        let (left_mask, right_mask) = (lanes.splat(left_mask), lanes.splat(right_mask));
        let mut left = *numbers;
        let mut right = *numbers;
        for (left, right) in left.iter_mut().zip(&mut right) {
            *left = lanes.shift_right(*left, right_bits);
            *right = lanes.and(*right, right_mask);
        }
        for [first, second] in self.keys.iter().take(pairs) {
            first.round(lanes, left_mask, &mut left, &right);
            second.round(lanes, right_mask, &mut right, &left);
        }
        for (number, (left, right)) in numbers.iter_mut().zip(left.iter().zip(right)) {
            *number = lanes.or(lanes.shift_left(*left, right_bits), right);
        }
    }

    /// Go on with the numbers that lie outside, of which these are the places, until none does.
    #[inline(always)]
    fn walk<L: Lanes>(&self, lanes: L, numbers: &mut [u64], outside: &mut [u16]) {
        let mut count = outside.len();
        while count > 0 {
            let mut found = 0;
            for next in (0..count).step_by(GROUP * L::COUNT) {
                let mut places = [0; MAX_GROUP];
                let mut walkers = [0; MAX_GROUP];
                let group = outside.iter().take(count).skip(next).take(GROUP * L::COUNT);
                let size = group.len();
                for ((place, walker), &outside) in places.iter_mut().zip(&mut walkers).zip(group) {
                    *place = outside;
                    *walker = numbers.get(usize::from(outside)).copied().unwrap_or_default();
                }
                let mut vectors = [lanes.splat(0); GROUP];
                for (vector, walkers) in vectors.iter_mut().zip(walkers.chunks_exact(L::COUNT)) {
                    *vector = lanes.load(walkers);
                }
                self.forward(lanes, &mut vectors);
                for (vector, walkers) in vectors.iter().zip(walkers.chunks_exact_mut(L::COUNT)) {
                    lanes.store(*vector, slots::of(walkers));
                }
                for (&place, walker) in places.iter().zip(walkers).take(size) {
                    if let Some(number) = numbers.get_mut(usize::from(place)) {
                        *number = walker;
                    }
                    note(outside, &mut found, place, walker >= self.domain.length);
                }
            }
            count = found;
        }
    }

    fn backward(&self, number: u64) -> u64 {
        let Domain { right_bits, left_mask, right_mask, pairs, .. } = self.domain;
        let mut left = [number >> right_bits];
        let mut right = [number & right_mask];
        for [first, second] in self.keys.iter().take(pairs).rev() {
            second.round(One, right_mask, &mut right, &left);
            first.round(One, left_mask, &mut left, &right);
        }
        let ([left], [right]) = (left, right);
        (left << right_bits) | right
    }
}

/// Indices of a run of places.
struct Fill<'a> {
    permutation: &'a Permutation,
    place: u64,
    out: &'a mut [MaybeUninit<u64>],
}

impl Task for Fill<'_> {
    /// In blocks. What lies outside after the first pass is gathered and goes on together.
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { permutation, place, out } = self;
        let size = GROUP * L::COUNT;
        let step = lanes.splat(L::COUNT as u64);
        let (length, full) = (permutation.domain.length, permutation.domain.is_full());
        let mut outside = [0_u16; BLOCK];
        for (block, out) in (0..).zip(out.chunks_mut(BLOCK)) {
            // Lanes beyond the block's end are left out; they may hold places past the length.
            let mut places = lanes.ramp(place.wrapping_add(block * BLOCK as u64), 1);
            let mut found = 0;
            let mut at = 0;
            for group in out.chunks_mut(size) {
                let mut vectors = [places; GROUP];
                for vector in &mut vectors {
                    *vector = places;
                    places = lanes.add(places, step);
                }
                permutation.forward(lanes, &mut vectors);
                let numbers = store_all(lanes, vectors, group);
                if !full {
                    for &mut number in numbers {
                        note(&mut outside, &mut found, at, number >= length);
                        at += 1;
                    }
                }
            }
            if let Some(outside) = outside.get_mut(..found).filter(|outside| !outside.is_empty()) {
                permutation.walk(lanes, slots::written(out), outside);
            }
        }
    }
}

/// Put `place` at the end of a list if it belongs there; without a branch, since nobody can foretell whether it does.
#[inline(always)]
fn note(list: &mut [u16], length: &mut usize, place: u16, belongs: bool) {
    if let Some(end) = list.get_mut(*length) {
        *end = place;
    }
    *length += usize::from(belongs);
}

/// Vectors into `out`, which may be shorter.
#[inline(always)]
fn store_all<L: Lanes, const N: usize>(
    lanes: L,
    vectors: [L::Vector; N],
    out: &mut [MaybeUninit<u64>],
) -> &mut [u64] {
    if out.len() == N * L::COUNT {
        for (slots, vector) in out.chunks_exact_mut(L::COUNT).zip(vectors) {
            lanes.store(vector, slots);
        }
    } else {
        let mut numbers = [0; MAX_GROUP];
        for (slots, vector) in numbers.chunks_exact_mut(L::COUNT).zip(vectors) {
            lanes.store(vector, slots::of(slots));
        }
        for (slot, number) in out.iter_mut().zip(numbers) {
            slot.write(number);
        }
    }
    slots::written(out)
}

/// The key of one round: two 32-bit halves of one hash.
#[derive(Debug, Clone, Copy, Default)]
struct RoundKey {
    before: u64,
    between: u64,
}

impl RoundKey {
    const fn new(key: u64) -> Self {
        Self { before: key & LOW, between: key >> 32 }
    }

    /// One round: the round function of `from`, into `into`.
    ///
    /// The round function, on 32 bits: two multiplications of 32 by 32 bits, each folded (high half XOR low
    /// half), with a key before each. Such a multiplication is one instruction a vector on every machine. The
    /// multipliers are those of Philox4x32 (J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
    /// 2011). Each step is done for all vectors before the next: in this order processors find what they can do
    /// side by side.
    #[inline(always)]
    fn round<L: Lanes, const N: usize>(
        self,
        lanes: L,
        mask: L::Vector,
        into: &mut [L::Vector; N],
        from: &[L::Vector; N],
    ) {
        let mut vectors = *from;
        for (key, multiplier) in [(self.before, 0xd251_1f53), (self.between, 0xcd9e_8d57)] {
            let (key, multiplier) = (lanes.splat(key), lanes.splat(multiplier));
            for vector in &mut vectors {
                *vector = lanes.xor(*vector, key);
            }
            for vector in &mut vectors {
                *vector = lanes.times_low(*vector, multiplier);
            }
            let mut upper = vectors;
            for vector in &mut upper {
                *vector = lanes.upper(*vector);
            }
            for (vector, upper) in vectors.iter_mut().zip(upper) {
                *vector = lanes.xor(*vector, upper);
            }
        }
        for (into, vector) in into.iter_mut().zip(vectors) {
            *into = lanes.xor(*into, lanes.and(vector, mask));
        }
    }
}

const LOW: u64 = 0xffff_ffff;
