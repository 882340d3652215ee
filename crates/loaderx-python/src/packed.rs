//! Records of any shapes as arrays: values, offsets, rows of shapes.

use numpy::ndarray::ArrayView2;
use numpy::{PyArray1, PyArray2, PyUntypedArray, ToPyArray, dtype};
use pyo3::prelude::*;

use crate::memory::on;

/// Records, offsets, shape rows.
pub(crate) type Packed<'py> = (Bound<'py, PyUntypedArray>, Bound<'py, PyArray1<i64>>, ShapeRows<'py>);

/// Rows of the `.shape` file, where there is something to say.
pub(crate) type ShapeRows<'py> = Option<Bound<'py, PyArray2<u32>>>;

/// Offsets in bytes as offsets in items; `None` where one lies within an item.
pub(crate) fn in_items(mut offsets: Vec<i64>, itemsize: usize) -> Option<Vec<i64>> {
    let itemsize = i64::try_from(itemsize).ok().filter(|&itemsize| itemsize > 0)?;
    for offset in &mut offsets {
        if offset.checked_rem(itemsize)? != 0 {
            return None;
        }
        *offset = offset.checked_div(itemsize)?;
    }
    Some(offsets)
}

/// Packed records as arrays that own their memory.
pub(crate) fn packed(py: Python<'_>, packed: zloader::Packed) -> PyResult<Packed<'_>> {
    let length = packed.values.len();
    let values = on(packed.values, &[length], &dtype::<u8>(py))?;
    let shapes = packed.shapes.map(|shapes| shape_rows(py, &shapes));
    Ok((values, PyArray1::from_slice(py, &packed.offsets), shapes))
}

/// Entries as rows of the `.shape` file, shape (n, 8).
pub(crate) fn shape_rows<'py>(py: Python<'py>, shapes: &[zrecord::Shape]) -> Bound<'py, PyArray2<u32>> {
    let rows: Vec<[u32; 8]> = shapes.iter().map(|shape| shape.0).collect();
    ArrayView2::from(rows.as_slice()).to_pyarray(py)
}
