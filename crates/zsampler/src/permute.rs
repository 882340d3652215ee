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

#[cfg(test)]
mod tests;

use crate::rng::{Purpose, derive};

/// Numbers permuted side by side: so many that the compiler makes vector loops of them, which it does not where it
/// can unroll (measured: 55 us a batch of 8,192 with 64, 79 us with 16). A short batch pays for one such pass.
const LANES: usize = 64;
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
}

/// The permutation of one cycle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Permutation {
    domain: Domain,
    keys: [[RoundKey; 2]; MAX_PAIRS],
}

impl Permutation {
    /// The permutation of a cycle. Its round keys cost a hash each, so make it once a batch.
    pub(crate) fn new(domain: Domain, seed: u64, cycle: u64) -> Self {
        let mut keys = [[RoundKey::default(); 2]; MAX_PAIRS];
        for (round, key) in (0..).zip(keys.iter_mut().take(domain.pairs).flatten()) {
            *key = RoundKey::new(derive(seed, Purpose::Cyclic, cycle, round));
        }
        Self { domain, keys }
    }

    /// The indices at the places from `place` on, all of them below the length.
    pub(crate) fn fill(&self, place: u64, out: &mut [u64]) {
        let mut place = place;
        for chunk in out.chunks_mut(LANES) {
            // Lanes past the chunk's end may hold places past the length; the zip leaves them out.
            let mut next = place;
            let places = [(); LANES].map(|()| {
                let place = next;
                next = next.wrapping_add(1);
                place
            });
            for (slot, number) in chunk.iter_mut().zip(self.forward(places)) {
                *slot = self.walk(number);
            }
            place = next;
        }
    }

    /// The place of an index. `index` is below the length.
    pub(crate) fn place(&self, index: u64) -> u64 {
        let mut number = self.backward(index);
        while number >= self.domain.length {
            number = self.backward(number);
        }
        number
    }

    #[inline]
    fn walk(&self, number: u64) -> u64 {
        let mut number = number;
        while number >= self.domain.length {
            [number] = self.forward([number]);
        }
        number
    }

    #[inline]
    fn forward<const N: usize>(&self, numbers: [u64; N]) -> [u64; N] {
        let Domain { right_bits, left_mask, right_mask, pairs, .. } = self.domain;
        let mut left = numbers.map(|number| number >> right_bits);
        let mut right = numbers.map(|number| number & right_mask);
        for [first, second] in self.keys.iter().take(pairs) {
            for (left, right) in left.iter_mut().zip(&right) {
                *left ^= first.mix(*right) & left_mask;
            }
            for (right, left) in right.iter_mut().zip(&left) {
                *right ^= second.mix(*left) & right_mask;
            }
        }
        for (left, right) in left.iter_mut().zip(right) {
            *left = (*left << right_bits) | right;
        }
        left
    }

    fn backward(&self, number: u64) -> u64 {
        let Domain { right_bits, left_mask, right_mask, pairs, .. } = self.domain;
        let mut left = number >> right_bits;
        let mut right = number & right_mask;
        for [first, second] in self.keys.iter().take(pairs).rev() {
            right ^= second.mix(left) & right_mask;
            left ^= first.mix(right) & left_mask;
        }
        (left << right_bits) | right
    }
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

    /// The round function, on 32 bits: two multiplications of 32 by 32 bits, each folded (high half XOR low
    /// half), with a key before each. Such a multiplication is one instruction a vector on every machine. The
    /// multipliers are those of Philox4x32 (J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
    /// 2011).
    #[inline]
    const fn mix(self, half: u64) -> u64 {
        fold(((fold(((half ^ self.before) & LOW) * 0xd251_1f53) ^ self.between) & LOW) * 0xcd9e_8d57)
    }
}

const LOW: u64 = 0xffff_ffff;

#[inline]
const fn fold(product: u64) -> u64 {
    (product ^ (product >> 32)) & LOW
}
