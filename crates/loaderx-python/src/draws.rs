//! The class `Draws`.

use std::sync::Arc;

use numpy::PyArray1;
use pyo3::prelude::*;
use zloader::{Rank, Table};
use zsampler::Mode;

use crate::array::Numbers;
use crate::error::detached;

/// Which records a step reads, for one rank. A pure function of the step.
#[pyclass(module = "loaderx._core", frozen)]
pub(crate) struct Draws {
    pub(crate) core: Arc<zloader::Draws>,
}

/// Record numbers, and which component each is of.
pub(crate) type Drawn<'py> = (Bound<'py, PyArray1<u64>>, Option<Bound<'py, PyArray1<u32>>>);

#[pymethods]
impl Draws {
    /// The batches of `Sampler(length, batch_size, mode, seed)`; with `table`, uint64 of shape (length,), its entries in place of the
    /// indices.
    ///
    /// ValueError as of the sampler, for a rank that isn't, and for a table of another length. The table is copied.
    #[staticmethod]
    #[pyo3(signature = (length, batch_size, mode, seed, rank = 0, world_size = 1, table = None))]
    fn sampled(
        py: Python<'_>,
        length: u64,
        batch_size: u64,
        mode: i64,
        seed: u64,
        rank: u64,
        world_size: u64,
        table: Option<Numbers<'_>>,
    ) -> PyResult<Self> {
        let table = table.as_ref().map(Numbers::as_slice).transpose()?;
        let core = detached(py, || {
            let mode = Mode::try_from(mode)?;
            let sampler = zsampler::Sampler::new(length, batch_size, mode, seed)?;
            zloader::Draws::sampled(sampler, Rank { rank, world_size }, table.map(Table::new))
        })?;
        Ok(Self { core: Arc::new(core) })
    }

    /// Records of a step of this rank.
    #[getter]
    fn count(&self) -> usize {
        self.core.count()
    }

    /// The records of a step, uint64, shape (count,); and the component of each, uint32, None where there is but one.
    ///
    /// ValueError past the last step, 2**63 - 1.
    fn draw<'py>(&self, py: Python<'py>, step: u64) -> PyResult<Drawn<'py>> {
        let drawn = detached(py, || self.core.draw(step))?;
        Ok(shown(py, drawn))
    }
}

/// What was drawn as arrays.
pub(crate) fn shown(py: Python<'_>, drawn: zloader::Drawn) -> Drawn<'_> {
    let sources = drawn.sources.map(|sources| PyArray1::from_vec(py, sources));
    (PyArray1::from_vec(py, drawn.indices), sources)
}
