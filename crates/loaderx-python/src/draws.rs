//! The class `Draws`.

use std::sync::Arc;

use numpy::{PyArray1, PyReadonlyArray1};
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
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
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

    /// Draws in proportion to `weights`, one a record (with `table`: one an entry of it). ValueError as in `sampled`, and for weights that
    /// are none.
    #[staticmethod]
    #[pyo3(signature = (weights, batch_size, seed, rank = 0, world_size = 1, table = None))]
    fn weighted(
        py: Python<'_>,
        weights: PyReadonlyArray1<'_, f64>,
        batch_size: u64,
        seed: u64,
        rank: u64,
        world_size: u64,
        table: Option<Numbers<'_>>,
    ) -> PyResult<Self> {
        let weights = weights.as_slice()?;
        let table = table.as_ref().map(Numbers::as_slice).transpose()?;
        let core = detached(py, || {
            let weighted = zsampler::Weighted::new(weights, batch_size, seed)?;
            zloader::Draws::weighted(weighted, Rank { rank, world_size }, table.map(Table::new))
        })?;
        Ok(Self { core: Arc::new(core) })
    }

    /// Draws from several components of these lengths by share; `schedule` has (step, shares from there on), the first for step 0.
    ///
    /// With `exact`, each batch has the same number of records of a component. `tables` has one entry a component, None for one without;
    /// None: no tables. ValueError as in `sampled`, and for what is no schedule of shares.
    #[staticmethod]
    #[pyo3(signature = (lengths, batch_size, mode, seed, schedule, exact = false, rank = 0, world_size = 1, tables = None))]
    #[expect(clippy::too_many_arguments, reason = "named in Python")]
    fn mixed(
        py: Python<'_>,
        lengths: Vec<u64>,
        batch_size: u64,
        mode: i64,
        seed: u64,
        schedule: Vec<(u64, Vec<f64>)>,
        exact: bool,
        rank: u64,
        world_size: u64,
        tables: Option<Vec<Option<Numbers<'_>>>>,
    ) -> PyResult<Self> {
        let tables = tables.unwrap_or_else(|| lengths.iter().map(|_| None).collect());
        let tables = tables.iter().map(|table| table.as_ref().map(Numbers::as_slice).transpose());
        let tables = tables.collect::<PyResult<Vec<Option<&[u64]>>>>()?;
        let core = detached(py, || {
            let mode = Mode::try_from(mode)?;
            let mixture = zsampler::Mixture::new(&lengths, batch_size, mode, seed, &schedule, exact)?;
            let tables = tables.into_iter().map(|table| table.map(Table::new)).collect();
            zloader::Draws::mixed(mixture, Rank { rank, world_size }, tables)
        })?;
        Ok(Self { core: Arc::new(core) })
    }

    /// Batches that are each of one of `buckets`, (records, batch size) each: the first has the indices from 0 on. ValueError as in
    /// `sampled`, for a bucket that has fewer records than a batch, and for iid order.
    #[staticmethod]
    #[pyo3(signature = (buckets, mode, seed, rank = 0, world_size = 1, table = None))]
    fn bucketed(
        py: Python<'_>,
        buckets: Vec<(u64, u64)>,
        mode: i64,
        seed: u64,
        rank: u64,
        world_size: u64,
        table: Option<Numbers<'_>>,
    ) -> PyResult<Self> {
        let table = table.as_ref().map(Numbers::as_slice).transpose()?;
        let core = detached(py, || {
            let bucketed = zsampler::Bucketed::new(&buckets, Mode::try_from(mode)?, seed)?;
            zloader::Draws::bucketed(bucketed, Rank { rank, world_size }, table.map(Table::new))
        })?;
        Ok(Self { core: Arc::new(core) })
    }

    /// Records of a step of this rank; the most of any step, where batches differ in size.
    #[getter]
    fn count(&self) -> usize {
        self.core.count()
    }

    /// The places of the batch of a step that are this rank's: the first, and the one behind the last.
    fn places(&self, py: Python<'_>, step: u64) -> PyResult<(u64, u64)> {
        let places = detached(py, || self.core.places(step))?;
        Ok((places.start, places.end))
    }

    /// The bucket of the batch of a step, from 0 on; 0 where there are none.
    fn bucket_at(&self, step: u64) -> usize {
        self.core.bucket_at(step)
    }

    /// The records of a step, uint64, shape (n,); and the component of each, uint32, None where there is but one.
    ///
    /// ValueError past the last step, 2**63 - 1.
    fn draw<'py>(&self, py: Python<'py>, step: u64) -> PyResult<Drawn<'py>> {
        let drawn = detached(py, || self.core.draw(step))?;
        Ok(shown(py, drawn))
    }
}

/// What was drawn as arrays that own their memory.
pub(crate) fn shown(py: Python<'_>, drawn: zloader::Drawn) -> Drawn<'_> {
    let sources = drawn.sources.map(|sources| PyArray1::from_slice(py, &sources));
    (PyArray1::from_slice(py, &drawn.indices), sources)
}
