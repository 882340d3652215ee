//! The class `Rows`, and the function that cuts a packed batch into its records.

use numpy::{PyArrayDescr, PyReadonlyArray1, PyUntypedArray};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::array::{Destination, Shapes, fill, plain};
use crate::error::detached;
use crate::memory::empty;
use crate::store::{Store, within};
use crate::view::{parts, stretch};

/// The records of a store, all of one dtype and shape, as rows of new arrays.
#[pyclass(module = "loaderx._core", frozen)]
pub(crate) struct Rows {
    pub(crate) store: Py<Store>,
    pub(crate) dtype: Py<PyArrayDescr>,
    pub(crate) item_shape: Vec<usize>,
}

#[pymethods]
impl Rows {
    /// `dtype` and `item_shape` are those of one record.
    #[new]
    fn new(
        py: Python<'_>,
        store: Py<Store>,
        dtype: Py<PyArrayDescr>,
        item_shape: Vec<usize>,
    ) -> PyResult<Self> {
        plain(dtype.bind(py))?;
        Ok(Self { store, dtype, item_shape })
    }

    /// The records `index` as an array of shape (n, *item_shape).
    ///
    /// None if `index` must be looked at first: if it is no C-contiguous array of int64 or uint64 of shape (n,), or not within
    /// 0..len. Other errors as in `Store.gather_rows`.
    fn take<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyUntypedArray>>> {
        let Some(idxs) = self.within(py, index)? else { return Ok(None) };
        match self.rows(py, &idxs, Some(idxs.len())) {
            Err(error) if error.is_instance_of::<PyIndexError>(py) => Ok(None),
            rows => rows.map(Some),
        }
    }

    /// As `take`, into the rows of the C-contiguous, writable `out`; False where `take` gives None.
    fn fill<'py>(
        &self,
        py: Python<'py>,
        index: &Bound<'py, PyAny>,
        mut out: Destination<'py>,
    ) -> PyResult<bool> {
        let Some(idxs) = self.within(py, index)? else { return Ok(false) };
        let (core, memory) = (&self.store.get().core, out.as_mut_slice()?);
        match detached(py, || core.gather_rows(&idxs, memory)) {
            Err(error) if error.is_instance_of::<PyIndexError>(py) => Ok(false),
            done => done.map(|()| true),
        }
    }

    /// The records from `start` to `stop` as a read-only array of shape (n, *item_shape) on the store's own file: nothing is copied.
    ///
    /// IndexError if they are not within 0..len; ValueError if the store has no such view; CorruptRecordError.
    fn view<'py>(&self, py: Python<'py>, start: u64, stop: u64) -> PyResult<Bound<'py, PyUntypedArray>> {
        let core = &self.store.get().core;
        let view = detached(py, || core.view(start..stop))?;
        let count = usize::try_from(stop.saturating_sub(start)).unwrap_or(usize::MAX);
        stretch(py, view, count, &self.item_shape, self.dtype.bind(py))
    }

    /// Record `index` as an array of shape item_shape. IndexError if there is none.
    fn record<'py>(&self, py: Python<'py>, index: u64) -> PyResult<Bound<'py, PyUntypedArray>> {
        self.rows(py, &[index], None)
    }
}

impl Rows {
    /// The indices of an array of them, if all are within the store: then there is memory worth asking for.
    fn within<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Option<Vec<u64>>> {
        within(py, &self.store.get().core, index)
    }

    fn rows<'py>(
        &self,
        py: Python<'py>,
        idxs: &[u64],
        count: Option<usize>,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let shape: Vec<usize> = count.into_iter().chain(self.item_shape.iter().copied()).collect();
        let core = &self.store.get().core;
        let rows = empty(&shape, self.dtype.bind(py))?;
        fill(rows, |memory| detached(py, || core.gather_rows(idxs, memory)))
    }
}

/// The parts of a C-contiguous array of shape (n,) between neighbouring `places`, as views of it; of the shapes that `rows` state, or
/// one-dimensional.
#[pyfunction]
#[pyo3(signature = (array, places, rows = None))]
pub(crate) fn split<'py>(
    array: &Bound<'py, PyUntypedArray>,
    places: PyReadonlyArray1<'py, i64>,
    rows: Option<Shapes>,
) -> PyResult<Bound<'py, PyList>> {
    parts(array, places.as_slice()?, rows.as_ref().map(Shapes::as_slice))
}
