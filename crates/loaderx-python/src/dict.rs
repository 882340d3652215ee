//! Training of dictionaries.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::array::{Numbers, Source};
use crate::error::detached;

/// Train a zstd dictionary of at most `target` bytes from concatenated samples.
///
/// `samples` is bytes or a C-contiguous array; `sizes` is uint64, shape (n,): the bytes of each sample.
/// ValueError if they don't add up, ZrecordError if there is too little to train on.
#[pyfunction]
pub(crate) fn build_dict<'py>(
    py: Python<'py>,
    samples: Source<'py>,
    sizes: Numbers<'py>,
    target: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let (samples, sizes) = (samples.as_slice()?, sizes.as_slice()?);
    let dictionary = detached(py, || zrecord::build_dict(samples, sizes, target))?;
    Ok(PyBytes::new(py, &dictionary))
}
