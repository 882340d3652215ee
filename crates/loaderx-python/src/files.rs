//! Small files beside a store, such as its schema.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::detached;

/// The bytes of a small file. FileNotFoundError or another OSError if it can't be read.
#[pyfunction]
pub(crate) fn read_small_file(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyBytes>> {
    let bytes = detached(py, || zrecord::read_file(&path))?;
    Ok(PyBytes::new(py, &bytes))
}

/// Replace a small file durably: temporary name, sync, rename, sync of the directory. OSError if that fails.
#[pyfunction]
pub(crate) fn replace_file(py: Python<'_>, path: PathBuf, content: &[u8]) -> PyResult<()> {
    detached(py, || zrecord::replace_file(&path, content))
}
