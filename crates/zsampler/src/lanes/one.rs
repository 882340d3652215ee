//! One number: what every processor can, and the twin of the wider ones.

use std::mem::MaybeUninit;

use super::Lanes;

/// Nothing to prove.
#[derive(Debug, Clone, Copy)]
pub(crate) struct One;

const LOW: u64 = 0xffff_ffff;

impl Lanes for One {
    type Vector = u64;
    const COUNT: usize = 1;
    const MIXED: bool = false;

    #[inline(always)]
    fn ramp(self, first: u64, _: u64) -> u64 {
        first
    }

    #[inline(always)]
    fn load(self, from: &[u64]) -> u64 {
        from.first().copied().unwrap_or_default()
    }

    #[inline(always)]
    fn store(self, a: u64, to: &mut [MaybeUninit<u64>]) {
        if let Some(slot) = to.first_mut() {
            slot.write(a);
        }
    }

    #[inline(always)]
    fn add(self, a: u64, b: u64) -> u64 {
        a.wrapping_add(b)
    }

    #[inline(always)]
    fn xor(self, a: u64, b: u64) -> u64 {
        a ^ b
    }

    #[inline(always)]
    fn and(self, a: u64, b: u64) -> u64 {
        a & b
    }

    #[inline(always)]
    fn or(self, a: u64, b: u64) -> u64 {
        a | b
    }

    #[inline(always)]
    fn shift_left(self, a: u64, by: u32) -> u64 {
        a << by
    }

    #[inline(always)]
    fn shift_right(self, a: u64, by: u32) -> u64 {
        a >> by
    }

    #[inline(always)]
    fn upper(self, a: u64) -> u64 {
        a >> 32
    }

    #[inline(always)]
    fn times<const N: usize>(self, vectors: &mut [u64; N], by: u64, meanwhile: impl FnOnce()) {
        meanwhile();
        for vector in vectors {
            *vector = vector.wrapping_mul(by);
        }
    }

    #[inline(always)]
    fn times_low(self, a: u64, b: u64) -> u64 {
        (a & LOW) * (b & LOW)
    }

    #[inline(always)]
    fn times_upper<const N: usize>(self, vectors: &mut [u64; N], by: u64, meanwhile: impl FnOnce()) {
        meanwhile();
        for vector in vectors {
            *vector = vector.wrapping_mul(by) >> 32;
        }
    }

    #[inline(always)]
    fn shift_lower(self, a: u64, by: u32) -> u64 {
        (a & LOW) >> by
    }

    #[inline(always)]
    fn max_lower(self, a: u64, b: u64) -> u64 {
        (a & LOW).max(b & LOW)
    }

    #[inline(always)]
    fn any_lower(self, a: u64, bound: u32) -> bool {
        a & LOW >= u64::from(bound)
    }
}
