//! New arrays of numbers that are written once, by the core, rather than zeroed first.
//!
//! What could go wrong with the unsafe here: memory that was never written is seen as numbers, or others reach it while it is
//! written. The array is shown to nobody before `fill` has returned all of its memory as numbers, which it can only do by
//! writing them; otherwise it goes unseen.

use std::mem::MaybeUninit;
use std::slice;

use numpy::npyffi::{PY_ARRAY_API, npy_intp};
use numpy::{PyArray1, PyArrayDescrMethods, PyArrayMethods, dtype};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::error::internal;

/// A new uint64 array, shape (length,), of what `fill` writes into it and returns.
pub(crate) fn filled(
    py: Python<'_>,
    length: usize,
    fill: impl FnOnce(&mut [MaybeUninit<u64>]) -> PyResult<&mut [u64]>,
) -> PyResult<Bound<'_, PyArray1<u64>>> {
    let mut shape =
        [npy_intp::try_from(length)
            .map_err(|_| PyMemoryError::new_err("the batch is larger than memory"))?];
    // SAFETY: one axis, as `shape` has it; NumPy takes over the reference to the dtype, and its result is a new one or none.
    let array = unsafe {
        let array =
            PY_ARRAY_API.PyArray_Empty(py, 1, shape.as_mut_ptr(), dtype::<u64>(py).into_dtype_ptr(), 0);
        Bound::from_owned_ptr_or_err(py, array)?.cast_into::<PyArray1<u64>>()?
    };
    // SAFETY: a new array that nobody else has: `length` aligned numbers in a row, written or not.
    let slots = unsafe { slice::from_raw_parts_mut(array.data().cast::<MaybeUninit<u64>>(), length) };
    let expected = slots.as_ptr_range();
    let written = fill(slots)?.as_ptr_range();
    if (written.start.cast(), written.end.cast()) != (expected.start, expected.end) {
        return Err(internal("a batch was not written in full"));
    }
    Ok(array)
}
