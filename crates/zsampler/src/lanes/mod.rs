//! Several numbers side by side: what the orders compute with, and the sets of instructions that do it.
//!
//! An algorithm is written once, as a [`Task`] over [`Lanes`], and compiled for each set of instructions; so all
//! of them give the same sequence. [`Kernel`] picks the widest set that the processor has, at run time.

mod one;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::mem::MaybeUninit;

pub(crate) use one::One;

/// Arithmetic modulo 2^64 on vectors of numbers. A value of this is the proof that the processor can do it.
pub(crate) trait Lanes: Copy {
    type Vector: Copy;
    /// The numbers in a vector.
    const COUNT: usize;
    /// Whether multiplications of single numbers beside those of vectors are a gain.
    const MIXED: bool;

    /// `first`, `first + step`, and so on.
    fn ramp(self, first: u64, step: u64) -> Self::Vector;
    /// What lies at the head of `from`, which is a vector long at least.
    fn load(self, from: &[u64]) -> Self::Vector;
    /// To the head of `to`, which is a vector long at least.
    fn store(self, a: Self::Vector, to: &mut [MaybeUninit<u64>]);
    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn and(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn or(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// By less than 64 bits.
    fn shift_left(self, a: Self::Vector, by: u32) -> Self::Vector;
    /// By less than 64 bits.
    fn shift_right(self, a: Self::Vector, by: u32) -> Self::Vector;
    /// The upper halves, in the lower ones; what is above them is of no use.
    fn upper(self, a: Self::Vector) -> Self::Vector;
    /// The products; `meanwhile` is put among the instructions.
    fn times<const N: usize>(self, vectors: &mut [Self::Vector; N], by: u64, meanwhile: impl FnOnce());
    /// The products of the low halves, 32 by 32 bits.
    fn times_low(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The upper halves of [`Lanes::times`], in the lower halves; what is above them is of no use.
    fn times_upper<const N: usize>(self, vectors: &mut [Self::Vector; N], by: u64, meanwhile: impl FnOnce());
    /// The lower halves shifted as numbers of 32 bits; what is above them is of no use.
    fn shift_lower(self, a: Self::Vector, by: u32) -> Self::Vector;
    /// The larger ones of the lower halves; what is above them is of no use.
    fn max_lower(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Whether the lower half of any number is at least `bound`.
    fn any_lower(self, a: Self::Vector, bound: u32) -> bool;

    /// The number, behind the compiler's back where it would make vectors of single numbers.
    #[inline(always)]
    fn single(self, number: u64) -> u64 {
        number
    }

    /// The same number in each lane.
    #[inline(always)]
    fn splat(self, number: u64) -> Self::Vector {
        self.ramp(number, 0)
    }
}

/// What is compiled for each set of instructions. `run` is `#[inline(always)]`, or it would not be.
pub(crate) trait Task {
    fn run<L: Lanes>(self, lanes: L);
}

/// A set of instructions.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kernel {
    One(One),
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2),
}

impl Kernel {
    /// The widest one there is here.
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = x86::Avx2::new() {
            return Self::Avx2(avx2);
        }
        Self::One(One)
    }

    /// Every one there is here.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self::One(One)];
        #[cfg(target_arch = "x86_64")]
        all.extend(x86::Avx2::new().map(Self::Avx2));
        all
    }

    #[inline]
    pub(crate) fn run(self, task: impl Task) {
        match self {
            Self::One(one) => task.run(one),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.run(task),
        }
    }
}
