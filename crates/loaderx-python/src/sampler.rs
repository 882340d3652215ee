//! The class `Sampler`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::PyArray1;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use zsampler::Mode;

use crate::error::{Raise, attached, detached};
use crate::fresh;

/// Up to this batch size (50 us at the most) the interpreter is kept: to release it and take it again costs a short batch more than
/// it gives other threads.
const SHORT: usize = 8192;

/// Index batches as a pure function of (seed, step).
///
/// `mode` is 0 (sequential), 1 (iid) or 2 (cyclic). ValueError for a length or a batch size of 0, a cyclic batch
/// longer than the length, or an unknown mode. Threads may share a sampler: each batch goes to one of them.
#[pyclass(module = "loaderx._core", frozen)]
pub(crate) struct Sampler {
    core: zsampler::Sampler,
    /// Where the sampler stands. The core's own step is not used: a batch is made outside the lock.
    step: Mutex<u64>,
}

impl Sampler {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Sampler {
    #[new]
    #[pyo3(signature = (length, batch_size, mode, seed = 42))]
    fn new(py: Python<'_>, length: u64, batch_size: u64, mode: i64, seed: u64) -> PyResult<Self> {
        let core =
            Mode::try_from(mode).and_then(|mode| zsampler::Sampler::new(length, batch_size, mode, seed));
        let core = core.map_err(|error| error.raise(py))?;
        Ok(Self { step: Mutex::new(core.step()), core })
    }

    /// The number of records: every index is below it.
    #[getter]
    fn length(&self) -> u64 {
        self.core.length()
    }

    /// The number of indices in each batch.
    #[getter]
    fn batch_size(&self) -> u64 {
        self.core.batch_size()
    }

    /// 0 (sequential), 1 (iid) or 2 (cyclic).
    #[getter]
    fn mode(&self) -> u8 {
        self.core.mode().into()
    }

    /// The seed.
    #[getter]
    fn seed(&self) -> u64 {
        self.core.seed()
    }

    /// The step whose batch comes next.
    #[getter]
    fn step(&self) -> u64 {
        *self.lock()
    }

    /// The batch of the current step, uint64, shape (batch_size,); the sampler then stands at the next.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        self.batch(py, || {
            let mut step = self.lock();
            let current = *step;
            *step = current.saturating_add(1);
            current
        })
    }

    /// The batch of a step, uint64, shape (batch_size,), wherever the sampler stands.
    fn batch_at<'py>(&self, py: Python<'py>, step: u64) -> PyResult<Bound<'py, PyArray1<u64>>> {
        self.batch(py, || step)
    }

    /// Go to a step in constant time. ValueError past the last step, 2**63 - 1.
    fn seek(&self, py: Python<'_>, step: u64) -> PyResult<()> {
        self.core.clone().seek(step).map_err(|error| error.raise(py))?;
        *self.lock() = step;
        Ok(())
    }

    /// (step, place in the batch) of the first draw of `index` at or after `step`, in constant time.
    ///
    /// None for iid, where it is not known without drawing. IndexError for an index at or beyond the length.
    fn next_draw(&self, py: Python<'_>, index: u64, step: u64) -> PyResult<Option<(u64, u64)>> {
        detached(py, || self.core.next_draw(index, step))
    }
}

impl Sampler {
    /// The batch of the step that `step` tells once there is memory for it, so that a step is never lost.
    fn batch<'py>(
        &self,
        py: Python<'py>,
        step: impl FnOnce() -> u64 + Send,
    ) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let length = usize::try_from(self.core.batch_size());
        let length = length.map_err(|_| PyMemoryError::new_err("the batch is larger than memory"))?;
        fresh::filled(py, length, |slots| {
            let call = || self.core.fill_new(step(), slots);
            if length <= SHORT { attached(py, call) } else { detached(py, call) }
        })
    }
}
