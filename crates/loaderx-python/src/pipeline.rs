//! The classes `Pipeline` and `Made`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use numpy::{PyArray1, PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::{PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use zloader::{Batch, Limits, Plan, Stream, Taken};

use crate::draws::{Draws, shown};
use crate::error::{Raise, detached, internal};
use crate::memory::on;
use crate::rows::Rows;
use crate::store::{Store, packed};
use crate::view::byte_count;

/// How often a waiting thread looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// Steps that are made ahead by threads, which never touch the interpreter.
#[pyclass(module = "loaderx._core", frozen)]
pub(crate) struct Pipeline {
    core: zloader::Pipeline,
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
impl Pipeline {
    /// Make steps from `first_step` on, at most `ahead` of them and `bytes` of memory (but always one), on `workers` threads.
    ///
    /// `streams` has a list for each stream: a `Rows` (all alike) or a `Store` for each component that is drawn from. ValueError if these
    /// don't fit each other; RuntimeError if no thread can be started.
    #[new]
    fn new(
        py: Python<'_>,
        draws: &Bound<'_, Draws>,
        streams: Vec<Vec<Component<'_>>>,
        first_step: u64,
        workers: usize,
        ahead: usize,
        bytes: u64,
    ) -> PyResult<Self> {
        let mut items = Vec::new();
        let mut cores = Vec::new();
        for components in &streams {
            let (item, core) = stream(components)?;
            items.push(item);
            cores.push(core);
        }
        let draws = Arc::clone(&draws.get().core);
        let core = detached(py, || {
            zloader::Pipeline::start(Plan::new(draws, cores)?, Limits { workers, ahead, bytes }, first_step)
        })?;
        Ok(Self { core, items })
    }

    /// Wait for what came of `step`, or of the next that is ready; None once the pipeline is stopped.
    ///
    /// TimeoutError after `timeout` seconds; ValueError for a step that was taken before. Exceptions that signals raise end the wait.
    #[pyo3(signature = (step, timeout = None))]
    fn take(&self, py: Python<'_>, step: Option<u64>, timeout: Option<f64>) -> PyResult<Option<Made>> {
        let end = timeout.map(deadline).transpose()?.flatten();
        loop {
            let look = Instant::now() + LOOK;
            let until = end.map_or(look, |end| end.min(look));
            let taken = detached(py, || match step {
                Some(step) => self.core.take(step, Some(until)),
                None => self.core.take_any(Some(until)),
            })?;
            match taken {
                Taken::Made(made) => return self.show(py, *made).map(Some),
                Taken::Stopped => return Ok(None),
                Taken::TimedOut => py.check_signals()?,
            }
            if end.is_some_and(|end| end <= Instant::now()) {
                let what = step.map_or("no step".to_owned(), |step| format!("step {step}: no batch"));
                let seconds = timeout.unwrap_or_default();
                return Err(PyTimeoutError::new_err(format!("{what} within {seconds} s")));
            }
        }
    }

    /// Begin nothing more. Never waits, and may be called from anywhere, any number of times.
    fn stop(&self) {
        self.core.stop();
    }

    /// Wait for the threads to end, which they do once stopped; False if they haven't after `seconds`.
    fn join(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let end = deadline(seconds)?;
        loop {
            let look = Instant::now() + LOOK;
            let until = end.map_or(look, |end| end.min(look));
            if py.detach(|| self.core.join(until)) {
                return Ok(true);
            }
            if end.is_some_and(|end| end <= Instant::now()) {
                return Ok(false);
            }
            py.check_signals()?;
        }
    }

    /// The number of steps that are ready.
    #[getter]
    fn ready(&self) -> usize {
        self.core.ready()
    }
}

impl Pipeline {
    fn show(&self, py: Python<'_>, made: zloader::Made) -> PyResult<Made> {
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

/// The moment that is so many seconds from now; `None` if that is farther away than time goes.
fn deadline(seconds: f64) -> PyResult<Option<Instant>> {
    if seconds.is_nan() {
        return Err(PyValueError::new_err("a time to wait is not a number"));
    }
    let wait = Duration::try_from_secs_f64(seconds.max(0.0));
    Ok(wait.ok().and_then(|wait| Instant::now().checked_add(wait)))
}
