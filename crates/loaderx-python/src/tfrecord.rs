//! Functions on foreign records: TFRecord framing and `tf.train.Example`.

use numpy::{Element, PyArray1, PyArrayMethods, PyUntypedArray};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zforeign::tfrecord::{Column, Kind, Values};

use crate::array::{Numbers, Source};
use crate::error::detached;

type Walked<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>, u64, u64);
type Shown<'py> = (Bound<'py, PyBytes>, Option<&'static str>, u64, u64, u64, u64);
type Parsed<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyUntypedArray>, Option<Bound<'py, PyArray1<i64>>>);

/// The records whose frames lie in `content`; see `_core.pyi`.
#[pyfunction]
pub(crate) fn tfrecord_walk<'py>(
    py: Python<'py>,
    content: Source<'py>,
    base: u64,
    data: bool,
) -> PyResult<Walked<'py>> {
    let bytes = content.as_slice()?;
    let walk = detached(py, || zforeign::tfrecord::walk(bytes, base, data))?;
    Ok((PyArray1::from_vec(py, walk.starts), PyArray1::from_vec(py, walk.lengths), walk.end, walk.wanted))
}

/// The features of the records; see `_core.pyi`.
#[pyfunction]
pub(crate) fn scan_examples<'py>(
    py: Python<'py>,
    content: Source<'py>,
    starts: Numbers<'py>,
    lengths: Numbers<'py>,
    base: u64,
) -> PyResult<Vec<Shown<'py>>> {
    let (bytes, starts, lengths) = (content.as_slice()?, starts.as_slice()?, lengths.as_slice()?);
    let seen = detached(py, || zforeign::tfrecord::scan(bytes, starts, lengths, base))?;
    let shown = seen.into_iter().map(|one| {
        let name = PyBytes::new(py, &one.name);
        (name, one.kind.map(Kind::name), one.present, one.least, one.most, one.first)
    });
    Ok(shown.collect())
}

/// The features `wanted` as columns; see `_core.pyi`.
#[pyfunction]
pub(crate) fn parse_examples<'py>(
    py: Python<'py>,
    content: Source<'py>,
    starts: Numbers<'py>,
    lengths: Numbers<'py>,
    base: u64,
    wanted: Vec<(Vec<u8>, String)>,
) -> PyResult<Vec<Parsed<'py>>> {
    let (bytes, starts, lengths) = (content.as_slice()?, starts.as_slice()?, lengths.as_slice()?);
    let wanted =
        wanted.into_iter().map(|(name, kind)| Ok((name, kind_of(&kind)?))).collect::<PyResult<Vec<_>>>()?;
    let columns = detached(py, || zforeign::tfrecord::columns(bytes, starts, lengths, base, &wanted))?;
    Ok(columns.into_iter().map(|column| parsed(py, column)).collect())
}

fn kind_of(name: &str) -> PyResult<Kind> {
    let kinds = [Kind::Bytes, Kind::Float, Kind::Int64];
    let found = kinds.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| PyValueError::new_err(format!("unknown kind of feature {name:?}")))
}

fn untyped<T: Element>(array: Bound<'_, PyArray1<T>>) -> Bound<'_, PyUntypedArray> {
    array.as_untyped().clone()
}

fn parsed(py: Python<'_>, column: Column) -> Parsed<'_> {
    let counts = PyArray1::from_vec(py, column.counts);
    let (values, sizes) = match column.values {
        Values::Bytes(values, sizes) => (untyped(PyArray1::from_vec(py, values)), Some(sizes)),
        Values::Float(values) => (untyped(PyArray1::from_vec(py, values)), None),
        Values::Int64(values) => (untyped(PyArray1::from_vec(py, values)), None),
    };
    (counts, values, sizes.map(|sizes| PyArray1::from_vec(py, sizes)))
}
