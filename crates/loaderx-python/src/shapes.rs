//! Shapes of ragged records: rows of the `.shape` file, tuples, and whether they are those of the records.

use numpy::{PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use zrecord::{Dimensions, MAX_RANK, Shape};

use crate::array::Shapes;
use crate::packed::shape_rows;

/// Whether each record can have the shape that its row states, bool, shape (n,). Record i has places[i + 1] - places[i] items.
#[pyfunction]
pub(crate) fn fits<'py>(
    py: Python<'py>,
    rows: Shapes,
    places: PyReadonlyArray1<'py, i64>,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let stated = stated(rows.as_slice(), places.as_slice()?)?;
    Ok(PyArray1::from_iter(py, stated.iter().map(Option::is_some)))
}

/// The shapes that rows state for records of so many items, as tuples. ValueError where one has no such shape.
#[pyfunction]
pub(crate) fn shapes<'py>(
    py: Python<'py>,
    rows: Shapes,
    places: PyReadonlyArray1<'py, i64>,
) -> PyResult<Bound<'py, PyList>> {
    let stated = stated(rows.as_slice(), places.as_slice()?)?;
    let tuples = stated.iter().enumerate().map(|(i, dimensions)| {
        let dimensions = dimensions.as_ref().ok_or_else(|| does_not_fit(i))?;
        PyTuple::new(py, dimensions.as_slice())
    });
    PyList::new(py, tuples.collect::<PyResult<Vec<_>>>()?)
}

/// The rows of shapes, uint32, shape (n, 8); None if all are one-dimensional.
///
/// With `places`, n + 1 of them, each shape must be one of so many items. `what` names the record in messages, before its number.
/// TypeError for what is no shape, ValueError for one that has no row or doesn't fit.
#[pyfunction]
#[pyo3(name = "shape_rows", signature = (shapes, what, places = None))]
pub(crate) fn rows_of<'py>(
    py: Python<'py>,
    shapes: &Bound<'py, PyAny>,
    what: &str,
    places: Option<PyReadonlyArray1<'py, i64>>,
) -> PyResult<Option<Bound<'py, PyArray2<u32>>>> {
    let items = places.as_ref().map(|places| places.as_slice().map(items)).transpose()?;
    let mut rows = Vec::new();
    for (i, shape) in shapes.try_iter()?.enumerate() {
        let shape = shape?;
        let dimensions = dimensions(&shape).map_err(|error| named(py, what, i, &error))?;
        let row = Shape::of(&dimensions).ok_or_else(|| {
            let most = if dimensions.len() > MAX_RANK { MAX_RANK as u64 } else { u64::from(u32::MAX) };
            let limits = if dimensions.len() > MAX_RANK { "dimensions" } else { "in a dimension" };
            PyValueError::new_err(format!(
                "{what} {i}: expected at most {most} {limits}, found shape {shape}"
            ))
        })?;
        if let Some(items) = &items {
            let found = items.get(i).copied();
            let expected = dimensions.iter().try_fold(1_u64, |items, &size| items.checked_mul(size));
            let expected = if dimensions.contains(&0) { Some(0) } else { expected };
            if let Some(found) = found
                && expected != Some(found)
            {
                let expected = expected.map_or("more than 2^64".to_owned(), |items| items.to_string());
                return Err(PyValueError::new_err(format!(
                    "{what} {i}: shape {shape} has {expected} items, found {found}"
                )));
            }
        }
        rows.push(row);
    }
    if let Some(items) = &items
        && items.len() != rows.len()
    {
        let (expected, found) = (items.len(), rows.len());
        return Err(PyValueError::new_err(format!(
            "expected a shape for each of {expected} records, found {found}"
        )));
    }
    Ok((!rows.iter().all(Shape::is_plain)).then(|| shape_rows(py, &rows)))
}

/// The sizes of a shape, whatever numbers they are.
fn dimensions(shape: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    let refuse = || PyTypeError::new_err(format!("expected a shape, a tuple of sizes, found {shape}"));
    let negative = || PyValueError::new_err(format!("expected sizes from 0 up, found shape {shape}"));
    if let Ok(tuple) = shape.cast::<PyTuple>() {
        return tuple.iter().map(|size| size_of(&size, &refuse, &negative)).collect();
    }
    let list = shape.cast::<PyList>().map_err(|_| refuse())?;
    list.iter().map(|size| size_of(&size, &refuse, &negative)).collect()
}

fn size_of(
    size: &Bound<'_, PyAny>,
    refuse: &dyn Fn() -> PyErr,
    negative: &dyn Fn() -> PyErr,
) -> PyResult<u64> {
    size.extract().map_err(|_| if size.extract::<i128>().is_ok() { negative() } else { refuse() })
}

fn named(py: Python<'_>, what: &str, i: usize, error: &PyErr) -> PyErr {
    PyErr::from_type(error.get_type(py), format!("{what} {i}: {}", error.value(py)))
}

/// The dimensions that rows state; `None` for those that don't fit.
fn stated(rows: &[Shape], places: &[i64]) -> PyResult<Vec<Option<Dimensions>>> {
    let items = items(places);
    if items.len() != rows.len() {
        let (expected, found) = (rows.len(), places.len());
        let message = format!("expected one place more than the {expected} records, found {found}");
        return Err(PyValueError::new_err(message));
    }
    Ok(rows.iter().zip(items).map(|(row, items)| row.dimensions(items)).collect())
}

/// The items between neighbouring places.
fn items(places: &[i64]) -> Vec<u64> {
    let between = places.iter().zip(places.iter().skip(1));
    between.map(|(from, to)| u64::try_from(to.saturating_sub(*from)).unwrap_or(u64::MAX)).collect()
}

/// The error of a record that can't have the shape that its row states.
pub(crate) fn does_not_fit(i: usize) -> PyErr {
    PyValueError::new_err(format!("record {i} can't have the shape that its row states"))
}
