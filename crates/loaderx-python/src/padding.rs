//! Ragged records into the rows of a dense array.

use pyo3::prelude::*;
use zloader::Side;

use crate::array::{Destination, Numbers, Records, Source};
use crate::error::detached;

/// The records packed in `src`, which begin at byte `offsets`, into the rows of the C-contiguous, writable `dense`; what is left of a row is
/// filled with the bytes `fill`, before the record if `left`, else behind it. ValueError where they don't fit.
#[pyfunction]
pub(crate) fn pad_packed(
    py: Python<'_>,
    src: Source<'_>,
    offsets: Numbers<'_>,
    mut dense: Destination<'_>,
    fill: &[u8],
    left: bool,
) -> PyResult<()> {
    let (src, offsets, dense) = (src.as_slice()?, offsets.as_slice()?, dense.as_mut_slice()?);
    detached(py, || zloader::pad(&zrecord::Records::packed(src, offsets)?, dense, fill, side(left)))
}

/// As [`pad_packed`], of records that are C-contiguous arrays or bytes.
#[pyfunction]
pub(crate) fn pad_list(
    py: Python<'_>,
    records: Records<'_>,
    mut dense: Destination<'_>,
    fill: &[u8],
    left: bool,
) -> PyResult<()> {
    let (records, dense) = (zrecord::Records::list(records.as_slices()?), dense.as_mut_slice()?);
    detached(py, || zloader::pad(&records, dense, fill, side(left)))
}

fn side(left: bool) -> Side {
    if left { Side::Left } else { Side::Right }
}
