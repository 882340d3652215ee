//! The class `Pipeline`.

use std::time::{Duration, Instant};

use pyo3::exceptions::{PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use zloader::{Limits, Taken};

use crate::error::detached;
use crate::gather::{Gather, Made};

/// How often a waiting thread looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// Steps that are made ahead by threads, which never touch the interpreter.
#[pyclass(module = "loaderx._core", frozen)]
pub(crate) struct Pipeline {
    core: zloader::Pipeline,
    gather: Py<Gather>,
}

#[pymethods]
impl Pipeline {
    /// Make steps from `first_step` on, at most `ahead` of them and `bytes` of memory (but always one), on `workers` threads.
    ///
    /// RuntimeError if no thread can be started.
    #[new]
    fn new(
        py: Python<'_>,
        gather: Py<Gather>,
        first_step: u64,
        workers: usize,
        ahead: usize,
        bytes: u64,
    ) -> PyResult<Self> {
        let plan = gather.get().plan.clone();
        let core =
            detached(py, || zloader::Pipeline::start(plan, Limits { workers, ahead, bytes }, first_step))?;
        Ok(Self { core, gather })
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
                Taken::Made(made) => return self.gather.get().show(py, *made).map(Some),
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

    /// Let go of all steps below `step`: those that are ready are freed, and none of them is begun any more.
    fn forget(&self, py: Python<'_>, step: u64) {
        py.detach(|| self.core.forget(step));
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

/// The moment that is so many seconds from now; `None` if that is farther away than time goes.
fn deadline(seconds: f64) -> PyResult<Option<Instant>> {
    if seconds.is_nan() {
        return Err(PyValueError::new_err("a time to wait is not a number"));
    }
    let wait = Duration::try_from_secs_f64(seconds.max(0.0));
    Ok(wait.ok().and_then(|wait| Instant::now().checked_add(wait)))
}
