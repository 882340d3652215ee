//! Randomness without state: a keyed hash to make keys, and a generator that can be read at any counter.
//!
//! - Keys: SipHash-2-4, J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF" (2012).
//! - Draws: SplitMix64, G. L. Steele, D. Lea and C. H. Flood, "Fast splittable pseudorandom number generators"
//!   (2014). Its state is a counter, so its n-th output is a function of (key, n).
//! - Unbiased range: D. Lemire, "Fast random integer generation in an interval" (2019).

use crate::lanes::{Lanes, One};

/// How far SplitMix64 counts on from one output to the next.
pub(crate) const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
const MIXERS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// What a key is for. Two purposes hash under different keys, so neither ever meets the other's; their tags end
/// in the order version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Round keys of a cycle's permutation.
    Cyclic,
    /// Counter streams of independent draws.
    Iid,
    /// Columns and coins of weighted draws.
    Weighted,
    /// Seeds of a mixture's components.
    Component,
    /// Round keys of the places of a mixture's batch.
    Placement,
    /// Seeds of buckets.
    Bucket,
    /// Round keys of the order of the batches of all buckets in a pass.
    Pass,
}

impl Purpose {
    const fn tag(self) -> u64 {
        match self {
            Self::Cyclic => u64::from_le_bytes(*b"cyclic/1"),
            Self::Iid => u64::from_le_bytes(*b"iid/sm/1"),
            Self::Weighted => u64::from_le_bytes(*b"weight/1"),
            Self::Component => u64::from_le_bytes(*b"mixrec/1"),
            Self::Placement => u64::from_le_bytes(*b"mixpos/1"),
            Self::Bucket => u64::from_le_bytes(*b"bktrec/1"),
            Self::Pass => u64::from_le_bytes(*b"bktpos/1"),
        }
    }
}

/// The key number `word` of `epoch` (a cycle, a counter's high half) for a purpose: SipHash-2-4 under the key
/// (seed, purpose) of the sixteen bytes (epoch, word).
pub(crate) fn derive(seed: u64, purpose: Purpose, epoch: u64, word: u64) -> u64 {
    siphash([seed, purpose.tag()], [epoch, word, 16 << 56])
}

/// SipHash-2-4 of a message in little-endian blocks. The last one is the caller's to pad: it holds the bytes that
/// are left over and, in its top byte, the message's length.
fn siphash<const N: usize>([key0, key1]: [u64; 2], blocks: [u64; N]) -> u64 {
    let start = [
        key0 ^ 0x736f_6d65_7073_6575,
        key1 ^ 0x646f_7261_6e64_6f6d,
        key0 ^ 0x6c79_6765_6e65_7261,
        key1 ^ 0x7465_6462_7974_6573,
    ];
    let [a, b, c, d] = blocks.into_iter().fold(start, sip_block);
    let end = (0..4).fold([a, b, c ^ 0xff, d], |v, _| sip_round(v));
    end.into_iter().fold(0, |hash, word| hash ^ word)
}

fn sip_block([a, b, c, d]: [u64; 4], block: u64) -> [u64; 4] {
    let [a, b, c, d] = sip_round(sip_round([a, b, c, d ^ block]));
    [a ^ block, b, c, d]
}

fn sip_round([a, b, c, d]: [u64; 4]) -> [u64; 4] {
    let a = a.wrapping_add(b);
    let b = b.rotate_left(13) ^ a;
    let a = a.rotate_left(32);
    let c = c.wrapping_add(d);
    let d = d.rotate_left(16) ^ c;
    let a = a.wrapping_add(d);
    let d = d.rotate_left(21) ^ a;
    let c = c.wrapping_add(b);
    let b = b.rotate_left(17) ^ c;
    let c = c.rotate_left(32);
    [a, b, c, d]
}

/// Output number `counter`, from 0, of a SplitMix64 seeded with `key`.
#[inline]
pub(crate) fn splitmix_at(key: u64, counter: u64) -> u64 {
    let mut state = [key.wrapping_add(counter.wrapping_add(1).wrapping_mul(GAMMA))];
    splitmix(One, &mut state);
    let [word] = state;
    word
}

/// The outputs of SplitMix64 in some states.
#[inline(always)]
pub(crate) fn splitmix<L: Lanes, const N: usize>(lanes: L, states: &mut [L::Vector; N]) {
    shifted(lanes, states, 30);
    lanes.times(states, MIXERS[0], || ());
    shifted(lanes, states, 27);
    lanes.times(states, MIXERS[1], || ());
    shifted(lanes, states, 31);
}

/// The upper halves of [`splitmix`] alone, in the lower halves; what is above them is of no use. `meanwhile` is put four
/// times among the instructions.
#[inline(always)]
pub(crate) fn splitmix_upper<L: Lanes, const N: usize>(
    lanes: L,
    states: &mut [L::Vector; N],
    mut meanwhile: impl FnMut(),
) {
    shifted(lanes, states, 30);
    meanwhile();
    lanes.times(states, MIXERS[0], &mut meanwhile);
    meanwhile();
    shifted(lanes, states, 27);
    lanes.times_upper(states, MIXERS[1], &mut meanwhile);
    for state in states {
        *state = lanes.xor(*state, lanes.shift_lower(*state, 31));
    }
}

#[inline(always)]
fn shifted<L: Lanes, const N: usize>(lanes: L, states: &mut [L::Vector; N], by: u32) {
    let mut upper = *states;
    for state in &mut upper {
        *state = lanes.shift_right(*state, by);
    }
    for (state, upper) in states.iter_mut().zip(upper) {
        *state = lanes.xor(*state, upper);
    }
}

/// The reduction of random words to `0..bound` without bias.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    bound: u64,
    /// 2^64 mod bound. Words whose product leaves less than this are the surplus that would favour some results.
    surplus: u64,
}

impl Range {
    /// A range of `bound` values. `bound` is not 0: the caller has refused that.
    pub(crate) const fn new(bound: u64) -> Self {
        let surplus = match bound.wrapping_neg().checked_rem(bound) {
            Some(surplus) => surplus,
            None => 0,
        };
        Self { bound, surplus }
    }

    /// The number of values.
    pub(crate) const fn bound(self) -> u64 {
        self.bound
    }

    /// The value for a word, or `None` if the word is rejected and another has to be drawn.
    #[inline]
    pub(crate) fn reduce(self, word: u64) -> Option<u64> {
        let product = u128::from(word) * u128::from(self.bound);
        (low(product) >= self.surplus).then(|| high(product))
    }
}

/// The low half.
#[inline]
pub(crate) const fn low(wide: u128) -> u64 {
    (wide & 0xffff_ffff_ffff_ffff) as u64
}

/// The high half.
#[inline]
pub(crate) const fn high(wide: u128) -> u64 {
    (wide >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURPOSES: [Purpose; 7] = [
        Purpose::Cyclic,
        Purpose::Iid,
        Purpose::Weighted,
        Purpose::Component,
        Purpose::Placement,
        Purpose::Bucket,
        Purpose::Pass,
    ];

    #[test]
    fn siphash_equals_the_published_vectors() {
        // Key bytes 00..0f and message bytes 00, 01, ... of the given length: the example of the paper's
        // appendix (15 bytes) and entries of the table in the authors' reference code.
        let [m0, m1] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let key = [m0, m1];
        assert_eq!(siphash(key, [0]), 0x726f_db47_dd0e_0e31);
        assert_eq!(siphash(key, [1 << 56]), 0x74f8_39c5_93dc_67fd);
        assert_eq!(siphash(key, [m0, 8 << 56]), 0x93f5_f579_9a93_2462);
        assert_eq!(siphash(key, [m0, (m1 << 8 >> 8) | 15 << 56]), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash(key, [m0, m1, 16 << 56]), 0x3f2a_cc7f_57c2_9bdb);
    }

    #[test]
    #[expect(
        deprecated,
        reason = "the standard library's SipHash-2-4 is a second implementation to compare with"
    )]
    fn keys_equal_the_hash_of_the_standard_library() {
        use std::hash::{Hasher, SipHasher};
        for i in 0..200 {
            let [seed, epoch, word] = [splitmix_at(1, i), splitmix_at(2, i), splitmix_at(3, i)];
            for purpose in PURPOSES {
                let mut hasher = SipHasher::new_with_keys(seed, purpose.tag());
                hasher.write(&[epoch.to_le_bytes(), word.to_le_bytes()].concat());
                assert_eq!(derive(seed, purpose, epoch, word), hasher.finish());
            }
        }
    }

    #[test]
    fn splitmix_equals_the_published_sequences() {
        // First outputs for two seeds of S. Vigna's reference code, which Java's SplittableRandom shares.
        let zero = [
            0xe220_a839_7b1d_cdaf,
            0x6e78_9e6a_a1b9_65f4,
            0x06c4_5d18_8009_454f,
            0xf88b_b8a8_724c_81ec,
            0x1b39_896a_51a8_749b,
        ];
        let other = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        for (seed, outputs) in [(0, zero), (1_234_567, other)] {
            for (counter, output) in (0..).zip(outputs) {
                assert_eq!(splitmix_at(seed, counter), output);
            }
        }
    }

    #[test]
    fn a_range_accepts_each_value_equally_often() {
        // The claim is about all 2^64 words. The words of value v are those whose product lies in
        // [v * 2^64, (v + 1) * 2^64); of these exactly floor(2^64 / bound) must pass, for every v.
        for bound in [1, 2, 3, 5, 6, 7, 1_000_003, 1 << 40, (1 << 63) + 1, u64::MAX] {
            let range = Range::new(bound);
            for value in [0, 1, bound / 3, bound / 2, bound - 1] {
                let value = value.min(bound - 1);
                let edge = |v: u64| (u128::from(v) << 64).div_ceil(u128::from(bound));
                let first_passing = |from: u128, to: u128| {
                    (from..to).take(3).find(|&word| range.reduce(low(word)).is_some()).unwrap_or(to)
                };
                let (from, to) = (edge(value), edge(value + 1));
                let passing = to - first_passing(from, to);
                assert_eq!(passing, (1_u128 << 64) / u128::from(bound), "bound {bound}, value {value}");
            }
        }
    }

    #[test]
    fn purposes_epochs_and_words_have_keys_of_their_own() {
        let mut keys = Vec::new();
        for purpose in PURPOSES {
            for seed in [0, 1, 2, u64::MAX] {
                for (epoch, word) in [(0, 0), (0, 1), (1, 0), (1, 1), (u64::MAX, 0), (0, u64::MAX)] {
                    keys.push(derive(seed, purpose, epoch, word));
                }
            }
        }
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }
}
