//! CRC-32C by carry-less multiplication, beside a copy if one is wanted.
//!
//! What could go wrong: instructions that the processor lacks, and loads and stores beyond a slice. Why it doesn't: a [`Kernel`]
//! exists only where the processor has said that it can do both sets, and every load or store takes an array of its size.
//!
//! The method: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel, 2009), in
//! P. Cawley's account of it for bit-reversed CRCs ("Faster CRC32-C on x86", corsix.org, 2022). Eight lanes of 16 bytes are each
//! carried over 128 bytes by two multiplications and met with the 16 bytes there; in the end they fold into one, which the
//! `crc32` instruction reduces. Cawley runs `crc32` on other bytes at the same time. We don't: on AMD's Zen both are microcoded
//! and don't overlap (eight multiplications with five `crc32` take 26 cycles, alone 16 and 15), and eight lanes alone were
//! quicker there than any mixture.
//!
//! Bits are reversed throughout: the lowest bit of a word is its highest power of x.

use std::arch::x86_64::{
    __m128i, _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64,
    _mm_extract_epi64, _mm_loadu_si128, _mm_set_epi64x, _mm_storeu_si128, _mm_xor_si128,
};

use crate::copy::{Stores, meets_itself, stream};
use crate::prefetch::{LEAD, LINE, prefetch, prefetch_once};

const POLYNOMIAL: u32 = 0x82F6_3B78;
const WORD: usize = 16;
const LANES: usize = 8;
const BLOCK: usize = WORD * LANES;
/// How far ahead of the bytes that are summed memory is asked for: these take longer than a copy's.
const FAR: usize = 1024;
const LEAD_BLOCKS: usize = FAR / BLOCK;
/// From here on crc-fast is quicker where it has wide vectors.
const SHORT: usize = 128;

/// The product of two polynomials, modulo the CRC's.
const fn times(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = (b >> 1) ^ if b & 1 == 1 { POLYNOMIAL } else { 0 };
        bit >>= 1;
    }
    product
}

/// x to the power of `n`, modulo the CRC's polynomial.
const fn power(mut n: usize) -> u32 {
    let (mut result, mut square) = (1 << 31, 1 << 30);
    while n > 0 {
        if n & 1 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        n >>= 1;
    }
    result
}

/// What carries the two halves of a word over `bytes` bytes. A product of a reversed 64-bit and a reversed 32-bit polynomial
/// comes out 33 powers too high; the first half lies 64 powers above the second.
const fn carry(bytes: usize) -> [i64; 2] {
    [power(8 * bytes + 64 - 33) as i64, power(8 * bytes - 33) as i64]
}

const OVER_BLOCK: [i64; 2] = carry(BLOCK);
const OVER_WORD: [i64; 2] = carry(WORD);

/// Proof that this processor has SSE 4.2 and PCLMULQDQ.
#[derive(Clone, Copy)]
pub(super) struct Kernel(());

impl Kernel {
    /// If the processor has what it takes.
    #[inline]
    pub(super) fn new() -> Option<Self> {
        let able = is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq");
        able.then_some(Self(()))
    }

    /// If nothing is quicker for inputs of `length` bytes.
    #[inline]
    pub(super) fn best_for(length: usize) -> Option<Self> {
        if length >= SHORT && is_x86_feature_detected!("avx512vl") { None } else { Self::new() }
    }

    /// The checksum of `first` followed by `second`.
    #[inline]
    pub(super) fn sum(self, first: &[u8], second: &[u8]) -> u32 {
        // SAFETY: `self` proves that the processor has both features.
        unsafe { sum(first, second) }
    }

    /// Copy `from` to `to`, which must be as long; the checksum of what was copied followed by `after`.
    #[inline]
    pub(super) fn copy_and_sum(self, from: &[u8], to: &mut [u8], after: &[u8], stores: Stores) -> u32 {
        debug_assert_eq!(from.len(), to.len());
        match stores {
            // SAFETY: `self` proves that the processor has both features; nothing is streamed.
            Stores::Cached => unsafe { copy_and_sum::<false, false>(u32::MAX, from, to, after) },
            Stores::Streaming => {
                // Such stores need whole words of the destination, and are quicker where they fill whole lines.
                let head = to.as_ptr().align_offset(LINE).min(to.len());
                let ((head, from), (place, to)) = (from.split_at(head), to.split_at_mut(head));
                place.copy_from_slice(head);
                let downwards = meets_itself(from, to);
                // SAFETY: `self`, as above; behind `head` the destination is aligned.
                unsafe {
                    let state = by_instruction(u32::MAX, head);
                    if downwards {
                        copy_and_sum::<true, true>(state, from, to, after)
                    } else {
                        copy_and_sum::<true, false>(state, from, to, after)
                    }
                }
            }
        }
    }
}

#[target_feature(enable = "sse4.2,pclmulqdq")]
fn sum(first: &[u8], second: &[u8]) -> u32 {
    let mut state = u32::MAX;
    let mut rest = first;
    let (blocks, behind) = first.as_chunks::<BLOCK>();
    if let Some((block, blocks)) = blocks.split_first() {
        let mut lanes = Lanes::of(block);
        lanes.add(state);
        prefetch(first, LEAD, between(first));
        let leading = blocks.len().saturating_sub(LEAD_BLOCKS);
        for (i, block) in blocks.iter().enumerate() {
            if i < leading {
                prefetch(block, FAR, BLOCK);
            }
            lanes.fold(block);
        }
        let (words, behind) = behind.as_chunks::<WORD>();
        let mut all = lanes.join();
        for word in words {
            all = fold(all, pair(OVER_WORD), load(word));
        }
        (state, rest) = (reduce(all), behind);
    }
    !by_instruction(by_instruction(state, rest), second)
}

/// As long as each other. `DOWNWARDS`: see `meets_itself`.
///
/// # Safety
/// Where it streams, `to` lies on a multiple of 16.
#[target_feature(enable = "sse4.2,pclmulqdq")]
unsafe fn copy_and_sum<const STREAMING: bool, const DOWNWARDS: bool>(
    state: u32,
    from: &[u8],
    to: &mut [u8],
    after: &[u8],
) -> u32 {
    let (blocks, behind) = from.as_chunks::<BLOCK>();
    let (places, place_behind) = to.as_chunks_mut::<BLOCK>();
    let (Some((block, blocks)), Some((place, places))) = (blocks.split_first(), places.split_first_mut())
    else {
        return copy_and_sum_short(state, from, to, after);
    };
    prefetch_once(from, LEAD, between(from));
    let mut lanes = Lanes::of(block);
    // SAFETY: as the caller promised, and blocks are multiples of a word.
    unsafe { lanes.copy::<STREAMING>(place) };
    lanes.add(state);
    let leading = blocks.len().saturating_sub(LEAD_BLOCKS);
    for (i, (block, place)) in blocks.iter().zip(places).enumerate() {
        if i < leading {
            prefetch_once(block, FAR, BLOCK);
            if !STREAMING {
                prefetch(place, FAR, BLOCK);
            }
        }
        // SAFETY: as the caller promised, and blocks are multiples of a word.
        unsafe { lanes.fold_and_copy::<STREAMING, DOWNWARDS>(block, place) };
    }
    let (words, rest) = behind.as_chunks::<WORD>();
    let mut all = lanes.join();
    for word in words {
        all = fold(all, pair(OVER_WORD), load(word));
    }
    place_behind.copy_from_slice(behind);
    !by_instruction(by_instruction(reduce(all), rest), after)
}

#[target_feature(enable = "sse4.2")]
fn copy_and_sum_short(state: u32, from: &[u8], to: &mut [u8], after: &[u8]) -> u32 {
    to.copy_from_slice(from);
    !by_instruction(by_instruction(state, from), after)
}

/// The state of the CRC after `bytes`.
#[inline]
#[target_feature(enable = "sse4.2")]
fn by_instruction(state: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut wide = u64::from(state);
    for word in words {
        wide = _mm_crc32_u64(wide, u64::from_le_bytes(*word));
    }
    let mut state = low32(wide);
    for &byte in rest {
        state = _mm_crc32_u8(state, byte);
    }
    state
}

/// Neighbouring words, each carried over the same distance.
struct Lanes([__m128i; LANES]);

impl Lanes {
    /// The first block of an input.
    #[inline]
    #[target_feature(enable = "sse4.2")]
    fn of(block: &[u8; BLOCK]) -> Self {
        let mut lanes = [_mm_cvtsi64_si128(0); LANES];
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<WORD>().0) {
            *lane = load(word);
        }
        Self(lanes)
    }

    /// Write the block that the lanes are.
    ///
    /// # Safety
    /// As for [`put`], of each word.
    #[inline]
    #[target_feature(enable = "sse4.2")]
    unsafe fn copy<const STREAMING: bool>(&self, place: &mut [u8; BLOCK]) {
        for (lane, place) in self.0.iter().zip(place.as_chunks_mut::<WORD>().0) {
            // SAFETY: the caller's promise.
            unsafe { put::<STREAMING>(place, *lane) };
        }
    }

    /// What came before the first block.
    #[inline]
    #[target_feature(enable = "sse4.2")]
    fn add(&mut self, state: u32) {
        let [first, ..] = &mut self.0;
        *first = _mm_xor_si128(*first, _mm_cvtsi64_si128(i64::from(state)));
    }

    #[inline]
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    fn fold(&mut self, block: &[u8; BLOCK]) {
        for (lane, word) in self.0.iter_mut().zip(block.as_chunks::<WORD>().0) {
            *lane = fold(*lane, pair(OVER_BLOCK), load(word));
        }
    }

    /// What is copied is what was summed: one load serves both.
    ///
    /// # Safety
    /// As for [`put`], of each word.
    #[inline]
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    unsafe fn fold_and_copy<const STREAMING: bool, const DOWNWARDS: bool>(
        &mut self,
        block: &[u8; BLOCK],
        place: &mut [u8; BLOCK],
    ) {
        let words = block.as_chunks::<WORD>().0.iter().zip(place.as_chunks_mut::<WORD>().0);
        let lanes = self.0.iter_mut().zip(words);
        let step = |(lane, (word, place)): (&mut __m128i, (&[u8; WORD], &mut [u8; WORD]))| {
            let word = load(word);
            *lane = fold(*lane, pair(OVER_BLOCK), word);
            // SAFETY: the caller's promise.
            unsafe { put::<STREAMING>(place, word) };
        };
        if DOWNWARDS { lanes.rev().for_each(step) } else { lanes.for_each(step) }
    }

    #[inline]
    #[target_feature(enable = "sse4.2,pclmulqdq")]
    fn join(self) -> __m128i {
        let [mut all, others @ ..] = self.0;
        for lane in others {
            all = fold(all, pair(OVER_WORD), lane);
        }
        all
    }
}

#[inline]
#[target_feature(enable = "sse4.2")]
fn pair([low, high]: [i64; 2]) -> __m128i {
    _mm_set_epi64x(high, low)
}

/// `word`, carried as far as `over` says, met with what lies there.
#[inline]
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn fold(word: __m128i, over: __m128i, there: __m128i) -> __m128i {
    let low = _mm_clmulepi64_si128::<0x00>(word, over);
    let high = _mm_clmulepi64_si128::<0x11>(word, over);
    _mm_xor_si128(_mm_xor_si128(low, there), high)
}

/// The state of the CRC after an input that is congruent to `word`.
#[inline]
#[target_feature(enable = "sse4.2")]
fn reduce(word: __m128i) -> u32 {
    let low = _mm_crc32_u64(0, _mm_cvtsi128_si64(word).cast_unsigned());
    low32(_mm_crc32_u64(low, _mm_extract_epi64::<1>(word).cast_unsigned()))
}

#[inline]
#[target_feature(enable = "sse4.2")]
fn load(word: &[u8; WORD]) -> __m128i {
    // SAFETY: reads the 16 bytes of `word`; this load needs no alignment.
    unsafe { _mm_loadu_si128(word.as_ptr().cast()) }
}

/// # Safety
/// Where it streams, `place` lies on a multiple of 16.
#[inline]
#[target_feature(enable = "sse4.2")]
unsafe fn put<const STREAMING: bool>(place: &mut [u8; WORD], word: __m128i) {
    if STREAMING {
        // SAFETY: the caller's promise.
        unsafe { stream(place, word) };
    } else {
        // SAFETY: writes the 16 bytes of `place`; this store needs no alignment.
        unsafe { _mm_storeu_si128(place.as_mut_ptr().cast(), word) };
    }
}

/// Bytes behind those that the caller has asked for, and before those that the loop asks for.
#[inline]
fn between(bytes: &[u8]) -> usize {
    bytes.len().min(FAR).saturating_sub(LEAD)
}

#[expect(clippy::cast_possible_truncation, reason = "the instruction leaves the high half zero")]
fn low32(wide: u64) -> u32 {
    wide as u32
}
