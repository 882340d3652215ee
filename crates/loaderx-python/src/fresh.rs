//! New arrays of numbers that are written once, by the core, rather than zeroed first.
//!
//! What could go wrong with the unsafe here: memory that was never written is seen as numbers, or others reach it while it is
//! written. The array is shown to nobody before `fill` has returned all of its memory as numbers, which it can only do by
//! writing them; otherwise it goes unseen.

use std::mem::MaybeUninit;
use std::slice;

use numpy::{PyArray1, PyArrayMethods, dtype};
use pyo3::prelude::*;

use crate::error::internal;
use crate::memory::empty;

/// A new uint64 array, shape (length,), of what `fill` writes into it and returns.
pub(crate) fn filled(
    py: Python<'_>,
    length: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u64>]) -> PyResult<&mut [u64]>,
) -> PyResult<Bound<'_, PyArray1<u64>>> {
    let array = empty(&[length], &dtype::<u64>(py))?.into_any().cast_into::<PyArray1<u64>>()?;
    // SAFETY: a new array that nobody else has: `length` aligned numbers in a row, written or not.
    let slots = unsafe { slice::from_raw_parts_mut(array.data().cast::<MaybeUninit<u64>>(), length) };
    let expected = slots.as_ptr_range();
    let written = fill(slots)?.as_ptr_range();
    if (written.start.cast(), written.end.cast()) != (expected.start, expected.end) {
        return Err(internal("a batch was not written in full"));
    }
    Ok(array)
}
