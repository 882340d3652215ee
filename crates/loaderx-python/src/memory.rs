//! New arrays for batches, on the memory of `zloader`.
//!
//! What could go wrong with the unsafe here: an array that outlives its memory, or two arrays on the same memory. An array's base is the
//! [`Block`] that owns the memory, so it lives as long as any view of the array, and a block has one array only. The content of a new
//! array is whatever was there: memory of `zloader` counts as initialised, and that of small arrays is NumPy's own.

use numpy::npyffi::PY_ARRAY_API;
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use zloader::Memory;

use crate::array::plain;
use crate::view::{Elements, axes, byte_count, rank, view};

/// Bytes from which memory is used again: what is smaller, NumPy's allocator keeps at hand by itself.
const REUSED_FROM: usize = 1 << 20;

/// Owner of an array's memory.
#[pyclass(frozen, module = "loaderx._core")]
struct Block {
    _memory: Memory,
}

/// An array of unspecified content, C-contiguous and writable, its memory its own for as long as it or a view of it lives.
#[pyfunction]
#[pyo3(name = "empty")]
pub(crate) fn empty_array<'py>(
    shape: Vec<usize>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    plain(dtype)?;
    empty(&shape, dtype)
}

/// As [`empty_array`]. `dtype` holds no references to objects.
pub(crate) fn empty<'py>(
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let too_large = || {
        PyMemoryError::new_err(format!("an array of shape {shape:?} and dtype {dtype} is larger than memory"))
    };
    let bytes = byte_count(shape, dtype).ok_or_else(too_large)?;
    if bytes < REUSED_FROM {
        let mut axes = axes(shape)?;
        // SAFETY: `axes` are so many numbers as its rank says; the reference to the dtype is the array's from here on. Null is an error
        // that NumPy has set.
        let array = unsafe {
            let dtype = dtype.clone().into_dtype_ptr();
            let array = PY_ARRAY_API.PyArray_Empty(py, rank(&axes), axes.as_mut_ptr(), dtype, 0);
            Bound::from_owned_ptr_or_err(py, array)?
        };
        return Ok(array.cast_into()?);
    }
    on(Memory::new(bytes).ok_or_else(too_large)?, shape, dtype)
}

/// The memory as a writable, C-contiguous array of this shape, which takes all of it. `dtype` holds no references to objects.
pub(crate) fn on<'py>(
    mut memory: Memory,
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    if byte_count(shape, dtype) != Some(memory.len()) {
        let message = format!("{} bytes are no array of shape {shape:?} and dtype {dtype}", memory.len());
        return Err(PyValueError::new_err(message));
    }
    // It stays where it is when its owner moves.
    let start = memory.as_mut_slice().as_mut_ptr();
    let owner = Bound::new(dtype.py(), Block { _memory: memory })?.into_any();
    // SAFETY: the memory is that long, more aligned than any dtype wants it, initialised and writable; no other array is on it, nothing of
    // this crate looks at it again, and it lives as long as its owner.
    unsafe { view(shape, dtype, start, Elements::Writable, owner) }
}
