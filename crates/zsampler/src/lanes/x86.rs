//! Four numbers with AVX2.
//!
//! What could go wrong: instructions that the processor lacks, and loads and stores beyond a slice. Why it doesn't:
//! an [`Avx2`] exists only where the processor has said that it can, and every load or store takes an array of its
//! size.

use std::arch::asm;
use std::arch::x86_64::{
    __m128i, __m256i, _mm_cvtsi64_si128, _mm256_add_epi64, _mm256_and_si256, _mm256_cmpeq_epi32,
    _mm256_loadu_si256, _mm256_max_epu32, _mm256_mul_epu32, _mm256_or_si256, _mm256_set_epi64x,
    _mm256_shuffle_epi32, _mm256_sll_epi64, _mm256_srl_epi32, _mm256_srl_epi64, _mm256_storeu_si256,
    _mm256_testz_si256, _mm256_xor_si256,
};
use std::mem::MaybeUninit;

use super::{Lanes, Task};

/// Proof that this processor has AVX2.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// If the processor can.
    pub(super) fn new() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    pub(super) fn run(self, task: impl Task) {
        // SAFETY: `self` proves that the processor has the feature.
        unsafe { with_avx2(self, task) }
    }
}

impl Avx2 {
    /// Of the products of halves, the sum of the mixed ones: what they add to the upper half. Each step is done for
    /// all vectors before the next, see [`Lanes`].
    #[inline(always)]
    fn mixed_products<const N: usize>(
        self,
        vectors: &[__m256i; N],
        by: u64,
        meanwhile: impl FnOnce(),
    ) -> [__m256i; N] {
        let (lower, upper) = (self.splat(by & LOWER), self.splat(by >> 32));
        let mut sums = *vectors;
        for sum in &mut sums {
            *sum = self.times_low(self.upper(*sum), lower);
        }
        let mut others = *vectors;
        for other in &mut others {
            *other = self.times_low(*other, upper);
        }
        meanwhile();
        for (sum, other) in sums.iter_mut().zip(others) {
            *sum = self.add(*sum, other);
        }
        sums
    }
}

#[target_feature(enable = "avx2")]
fn with_avx2(lanes: Avx2, task: impl Task) {
    task.run(lanes);
}

const LOWER: u64 = 0xffff_ffff;
/// In each 64 bits, the upper 32 twice.
const UPPER: i32 = 0b11_11_01_01;

/// A number of bits as the shifts take it.
#[inline(always)]
fn count(by: u32) -> __m128i {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { _mm_cvtsi64_si128(i64::from(by)) }
}

impl Lanes for Avx2 {
    type Vector = __m256i;
    const COUNT: usize = 4;
    const MIXED: bool = true;

    #[inline(always)]
    fn ramp(self, first: u64, step: u64) -> __m256i {
        let at = |lane: u64| first.wrapping_add(lane.wrapping_mul(step)).cast_signed();
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_set_epi64x(at(3), at(2), at(1), at(0)) }
    }

    #[inline(always)]
    fn load(self, from: &[u64]) -> __m256i {
        let array = from.first_chunk::<{ Self::COUNT }>().copied().unwrap_or_default();
        // SAFETY: `self` proves AVX2, and the array is 32 bytes.
        unsafe { _mm256_loadu_si256(array.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, a: __m256i, to: &mut [MaybeUninit<u64>]) {
        if let Some(array) = to.first_chunk_mut::<{ Self::COUNT }>() {
            // SAFETY: `self` proves AVX2, and the array is 32 bytes.
            unsafe { _mm256_storeu_si256(array.as_mut_ptr().cast(), a) }
        }
    }

    #[inline(always)]
    fn add(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_add_epi64(a, b) }
    }

    #[inline(always)]
    fn xor(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_xor_si256(a, b) }
    }

    #[inline(always)]
    fn and(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_and_si256(a, b) }
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn shift_left(self, a: __m256i, by: u32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_sll_epi64(a, count(by)) }
    }

    #[inline(always)]
    fn shift_right(self, a: __m256i, by: u32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_srl_epi64(a, count(by)) }
    }

    #[inline(always)]
    fn upper(self, a: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_shuffle_epi32::<UPPER>(a) }
    }

    /// Of the four products of halves, the highest falls out and the middle ones are added to the upper half.
    #[inline(always)]
    fn times<const N: usize>(self, vectors: &mut [__m256i; N], by: u64, meanwhile: impl FnOnce()) {
        let lower = self.splat(by & LOWER);
        let mut mixed = self.mixed_products(vectors, by, meanwhile);
        for mixed in &mut mixed {
            *mixed = self.shift_left(*mixed, 32);
        }
        for (vector, mixed) in vectors.iter_mut().zip(mixed) {
            *vector = self.add(self.times_low(*vector, lower), mixed);
        }
    }

    #[inline(always)]
    fn times_low(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_mul_epu32(a, b) }
    }

    #[inline(always)]
    fn times_upper<const N: usize>(self, vectors: &mut [__m256i; N], by: u64, meanwhile: impl FnOnce()) {
        let lower = self.splat(by & LOWER);
        let mixed = self.mixed_products(vectors, by, meanwhile);
        for (vector, mixed) in vectors.iter_mut().zip(mixed) {
            *vector = self.add(self.upper(self.times_low(*vector, lower)), mixed);
        }
    }

    #[inline(always)]
    fn single(self, number: u64) -> u64 {
        let mut number = number;
        // SAFETY: no instruction at all.
        unsafe { asm!("/* {0} */", inout(reg) number, options(nomem, nostack, preserves_flags)) }
        number
    }

    #[inline(always)]
    fn shift_lower(self, a: __m256i, by: u32) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_srl_epi32(a, count(by)) }
    }

    #[inline(always)]
    fn max_lower(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2.
        unsafe { _mm256_max_epu32(a, b) }
    }

    #[inline(always)]
    fn any_lower(self, a: __m256i, bound: u32) -> bool {
        let bounds = self.splat(u64::from(bound));
        // SAFETY: `self` proves AVX2.
        unsafe {
            let reached = _mm256_cmpeq_epi32(self.max_lower(a, bounds), a);
            _mm256_testz_si256(reached, self.splat(LOWER)) == 0
        }
    }
}
