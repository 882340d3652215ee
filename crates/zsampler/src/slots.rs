//! Memory that may not hold numbers yet.
//!
//! What could go wrong: memory that was never written is read as numbers, or numbers are taken away. Why it doesn't: the
//! orders write each slot that they are given and unwrite none, and [`written`] is called right behind them: at the end of
//! `Sampler::fill_new`, and in `permute.rs` on slots that the lines above it wrote.

use std::mem::MaybeUninit;

/// The slots of numbers that are to be replaced.
#[inline(always)]
pub(crate) fn of(numbers: &mut [u64]) -> &mut [MaybeUninit<u64>] {
    // SAFETY: the layouts are the same, and nobody makes a written slot an unwritten one: see the head of the file.
    unsafe { &mut *(std::ptr::from_mut(numbers) as *mut [MaybeUninit<u64>]) }
}

/// The numbers in slots that were all written.
#[inline(always)]
pub(crate) fn written(slots: &mut [MaybeUninit<u64>]) -> &mut [u64] {
    // SAFETY: the layouts are the same, and each slot was written: see the head of the file.
    unsafe { &mut *(std::ptr::from_mut(slots) as *mut [u64]) }
}
