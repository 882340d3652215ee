//! The classes `Gather` and `Made`.

use std::sync::Arc;

use numpy::{PyArray1, PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::PyValueError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyList;
use zloader::{Batch, Plan, Stream};

use crate::draws::{Draws, shown};
use crate::error::{Raise, detached, internal};
use crate::memory::on;
use crate::packed::packed;
use crate::rows::Rows;
use crate::store::Store;
use crate::view::byte_count;

/// Which records a step reads, and of which streams.
#[pyclass(module = "loaderx._core", frozen)]
pub(crate) struct Gather {
    pub(crate) plan: Plan,
    /// What the rows of each stream are; None for packed ones.
    items: Vec<Option<Item>>,
}

/// One record of a dense stream.
struct Item {
    dtype: Py<PyArrayDescr>,
    shape: Vec<usize>,
}

/// What came of a step.
#[pyclass(module = "loaderx._core", frozen, get_all)]
pub(crate) struct Made {
    /// The step.
    step: u64,
    /// One a stream, none after an error. Dense: shape (n, *item_shape), writable. Packed: as `Store.gather_packed`.
    streams: Py<PyList>,
    /// The records, uint64, shape (n,).
    indices: Py<PyArray1<u64>>,
    /// The component of each, uint32; None where there is but one.
    sources: Option<Py<PyArray1<u32>>>,
    /// How long drawing and gathering took.
    gather_seconds: f64,
    /// What went wrong, an exception.
    error: Option<Py<PyAny>>,
    /// The number of the stream where it did, if it was one.
    stream: Option<usize>,
}

/// A store of a stream: what `Rows` shows as rows, or records of any length.
#[derive(FromPyObject)]
enum Component<'py> {
    Rows(Bound<'py, Rows>),
    Store(Bound<'py, Store>),
}

#[pymethods]
impl Made {
    /// An error's traceback leads to frames that hold this: a cycle that the garbage collector must see.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.streams)?;
        visit.call(&self.indices)?;
        visit.call(self.sources.as_ref())?;
        visit.call(self.error.as_ref())
    }
}

#[pymethods]
impl Gather {
    /// `streams` has a list for each stream: a `Rows` (all alike) or a `Store` for each component that is drawn from.
    ///
    /// ValueError if these don't fit each other.
    #[new]
    fn new(py: Python<'_>, draws: &Bound<'_, Draws>, streams: Vec<Vec<Component<'_>>>) -> PyResult<Self> {
        let mut items = Vec::new();
        let mut cores = Vec::new();
        for components in &streams {
            let (item, core) = stream(components)?;
            items.push(item);
            cores.push(core);
        }
        let draws = Arc::clone(&draws.get().core);
        Ok(Self { plan: detached(py, || Plan::new(draws, cores))?, items })
    }

    /// What comes of a step, now and on this thread's account.
    fn make(&self, py: Python<'_>, step: u64) -> PyResult<Made> {
        let made = detached(py, || Ok::<_, zloader::Error>(self.plan.make(step)))?;
        self.show(py, made)
    }
}

impl Gather {
    pub(crate) fn show(&self, py: Python<'_>, made: zloader::Made) -> PyResult<Made> {
        let count = made.drawn.indices.len();
        let (indices, sources) = shown(py, made.drawn);
        let (batches, error, stream) = match made.batches {
            Ok(batches) => (batches, None, None),
            Err(failure) => (Vec::new(), Some(failure.error.raise(py)), failure.stream),
        };
        let arrays = batches.into_iter().zip(&self.items).map(|(batch, item)| arrays(py, batch, item, count));
        Ok(Made {
            step: made.step,
            streams: PyList::new(py, arrays.collect::<PyResult<Vec<_>>>()?)?.unbind(),
            indices: indices.unbind(),
            sources: sources.map(Bound::unbind),
            gather_seconds: made.seconds,
            error: error.map(|error| error.into_value(py).into_any()),
            stream,
        })
    }
}

/// What a stream gave, as arrays on its memory.
fn arrays<'py>(
    py: Python<'py>,
    batch: Batch,
    item: &Option<Item>,
    count: usize,
) -> PyResult<Bound<'py, PyAny>> {
    match (batch, item) {
        (Batch::Rows(memory), Some(item)) => {
            let shape: Vec<usize> = std::iter::once(count).chain(item.shape.iter().copied()).collect();
            Ok(on(memory, &shape, item.dtype.bind(py))?.into_any())
        }
        (Batch::Packed(records), _) => Ok(packed(py, records)?.into_pyobject(py)?.into_any()),
        (Batch::Rows(_), None) => Err(internal("rows of a stream that has none")),
    }
}

/// The components of a stream as the core knows it, and what its rows are.
fn stream(components: &[Component<'_>]) -> PyResult<(Option<Item>, Stream)> {
    let mut stores = Vec::new();
    let mut rows = Vec::new();
    for component in components {
        match component {
            Component::Store(store) => stores.push(Arc::clone(&store.get().core)),
            Component::Rows(found) => {
                stores.push(Arc::clone(&found.get().store.get().core));
                rows.push(found);
            }
        }
    }
    let Some(first) = rows.first() else { return Ok((None, Stream::Packed { stores })) };
    let py = first.py();
    let alike = |rows: &&Bound<'_, Rows>| {
        let (rows, first) = (rows.get(), first.get());
        rows.item_shape == first.item_shape && rows.dtype.bind(py).is_equiv_to(first.dtype.bind(py))
    };
    if rows.len() != stores.len() || !rows.iter().all(alike) {
        return Err(PyValueError::new_err("the components of a stream are not of one dtype and shape"));
    }
    let (dtype, shape) = (&first.get().dtype, &first.get().item_shape);
    let row = byte_count(shape, dtype.bind(py));
    let row = row.ok_or_else(|| PyValueError::new_err("a record is larger than memory"))?;
    let item = Item { dtype: dtype.clone_ref(py), shape: shape.clone() };
    Ok((Some(item), Stream::Rows { stores, row }))
}
