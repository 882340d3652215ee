//! Records as a caller has them, made ready for an append: what is an array of the right dtype already is taken as it is, without a step in
//! Python, and Python is asked about everything else.

use numpy::{PyArray1, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyIterator, PyList};
use zrecord::{MAX_RECORD_LEN, Shape};

use crate::array::{plain, record_bytes};
use crate::packed::{ShapeRows, shape_rows};

/// Bytes, byte offsets of the records, shape rows.
type Packed<'py> = (Bound<'py, PyArray1<u8>>, Bound<'py, PyArray1<u64>>, ShapeRows<'py>);

/// The records as C-contiguous arrays of `dtype`, and the rows of their shapes, None if all are one-dimensional.
///
/// `convert(record, i)` makes such an array, of a shape that has a row, of whatever is none, or raises.
#[pyfunction]
pub(crate) fn ready<'py>(
    py: Python<'py>,
    records: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
    convert: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyList>, ShapeRows<'py>)> {
    plain(dtype)?;
    let (mut arrays, mut shapes) = (Vec::new(), Entries::default());
    for (i, record) in records.try_iter()?.enumerate() {
        let (array, shape) = made_ready(record?, dtype, convert, i)?;
        shapes.push(i, shape);
        arrays.push(array);
    }
    let count = arrays.len();
    Ok((PyList::new(py, arrays)?, shapes.rows(py, count)))
}

/// The next records of an iterator, copied one after another: their bytes, where each begins, and shape rows as in [`ready`].
///
/// It ends with the iterator, or once the bytes and `overhead` of these for each record come to `limit`; no records come from an iterator
/// that has ended. The first record is number `first` to `convert`.
#[pyfunction]
pub(crate) fn pack<'py>(
    py: Python<'py>,
    records: Bound<'py, PyIterator>,
    dtype: &Bound<'py, PyArrayDescr>,
    convert: &Bound<'py, PyAny>,
    first: usize,
    limit: usize,
    overhead: usize,
) -> PyResult<Packed<'py>> {
    plain(dtype)?;
    let (mut values, mut offsets, mut shapes) = (Vec::new(), Vec::new(), Entries::default());
    for record in records {
        let number = first.saturating_add(offsets.len());
        let (array, shape) = made_ready(record?, dtype, convert, number)?;
        shapes.push(offsets.len(), shape);
        offsets.push(values.len() as u64);
        let bytes = record_bytes(number, array.as_any())?;
        if values.try_reserve(bytes.len()).is_err() {
            let needed = values.len().saturating_add(bytes.len());
            return Err(PyMemoryError::new_err(format!("there is no memory for {needed} bytes of records")));
        }
        values.extend_from_slice(bytes);
        if values.len().saturating_add(offsets.len().saturating_mul(overhead)) >= limit {
            break;
        }
    }
    let rows = shapes.rows(py, offsets.len());
    Ok((PyArray1::from_vec(py, values), PyArray1::from_vec(py, offsets), rows))
}

/// Shape entries, of which there are none up to the first that says something.
#[derive(Default)]
struct Entries(Vec<Shape>);

impl Entries {
    fn push(&mut self, record: usize, shape: Shape) {
        if !shape.is_plain() {
            self.0.resize(record, Shape::default());
            self.0.push(shape);
        }
    }

    fn rows<'py>(mut self, py: Python<'py>, count: usize) -> ShapeRows<'py> {
        if self.0.is_empty() {
            return None;
        }
        self.0.resize(count, Shape::default());
        Some(shape_rows(py, &self.0))
    }
}

/// The record as a C-contiguous array of `dtype`, and its shape.
fn made_ready<'py>(
    record: Bound<'py, PyAny>,
    dtype: &Bound<'py, PyArrayDescr>,
    convert: &Bound<'py, PyAny>,
    number: usize,
) -> PyResult<(Bound<'py, PyUntypedArray>, Shape)> {
    if record.is_exact_instance_of::<PyUntypedArray>() || is_map(&record)? {
        let array = record.cast::<PyUntypedArray>()?;
        if let Some(shape) = as_it_is(array, dtype) {
            return Ok((array.clone(), shape));
        }
    }
    let array = convert.call1((record, number))?.cast_into::<PyUntypedArray>()?;
    let shape = shape_of(&array).unwrap_or_default();
    Ok((array, shape))
}

/// Whether this is an array on a file, the one kind of array beside NumPy's plain one that is always taken as it is: others may have a
/// mask, or their own idea of their content.
fn is_map(record: &Bound<'_, PyAny>) -> PyResult<bool> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = record.py();
    let class =
        CLASS.get_or_try_init(py, || Ok::<_, PyErr>(py.import("numpy")?.getattr("memmap")?.unbind()))?;
    Ok(record.get_type().is(class))
}

/// The shape of an array that can be stored as it is.
fn as_it_is(array: &Bound<'_, PyUntypedArray>, dtype: &Bound<'_, PyArrayDescr>) -> Option<Shape> {
    let found = array.dtype();
    let fits = (found.is(dtype) || found.is_equiv_to(dtype)) && array.is_c_contiguous();
    let bytes = array.len().checked_mul(dtype.itemsize())?;
    if !fits || bytes as u64 > MAX_RECORD_LEN {
        return None;
    }
    shape_of(array)
}

fn shape_of(array: &Bound<'_, PyUntypedArray>) -> Option<Shape> {
    if array.ndim() == 1 {
        return Some(Shape::default());
    }
    let sizes: Vec<u64> = array.shape().iter().map(|&size| size as u64).collect();
    Shape::of(&sizes)
}
