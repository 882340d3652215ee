//! New arrays for batches: what memory they are on.

use numpy::{PyArrayDescr, PyUntypedArray};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use zloader::Memory;

use crate::array::plain;
use crate::owned::{new, owner};
use crate::view::byte_count;

/// Bytes from which memory is used again: what is smaller, NumPy's allocator keeps at hand by itself.
const REUSED_FROM: usize = 1 << 20;

/// An array of unspecified content, C-contiguous and writable, that owns its memory.
#[pyfunction]
#[pyo3(name = "empty")]
pub(crate) fn empty_array<'py>(
    shape: Vec<usize>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    plain(dtype)?;
    empty(&shape, dtype)
}

/// What batches hold: bytes in use, and kept for the next ones.
#[derive(IntoPyObject)]
pub(crate) struct Held {
    in_use: usize,
    kept: usize,
}

/// The memory of all batches of this process.
#[pyfunction]
pub(crate) fn batch_memory() -> Held {
    let held = zloader::held();
    Held { in_use: held.in_use, kept: held.kept }
}

/// As [`empty_array`]. `dtype` holds no references to objects.
pub(crate) fn empty<'py>(
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let too_large = || {
        PyMemoryError::new_err(format!("an array of shape {shape:?} and dtype {dtype} is larger than memory"))
    };
    let bytes = byte_count(shape, dtype).ok_or_else(too_large)?;
    if bytes < REUSED_FROM {
        return new(shape, dtype);
    }
    on(Memory::new(bytes).ok_or_else(too_large)?, shape, dtype)
}

/// The memory as a writable, C-contiguous array of this shape, which takes all of it and owns it. `dtype` holds no references to objects.
pub(crate) fn on<'py>(
    memory: Memory,
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    if byte_count(shape, dtype) != Some(memory.len()) {
        let message = format!("{} bytes are no array of shape {shape:?} and dtype {dtype}", memory.len());
        return Err(PyValueError::new_err(message));
    }
    owner(memory, shape, dtype)
}
