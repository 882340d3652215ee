//! The class `TarWalk`.

use std::mem;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zforeign::tar::{Arrays, Files, Walk};

use crate::array::Source;
use crate::error::{Raise, detached};

type Column<'py> = Bound<'py, PyArray1<i64>>;
type Shown<'py> = (Bound<'py, PyBytes>, Column<'py>, Column<'py>, Column<'py>, Column<'py>);
type Found<'py> = (Bound<'py, PyBytes>, Column<'py>, Vec<Shown<'py>>);

/// Finds the files of a tar archive, as samples; see `_core.pyi`.
#[pyclass(module = "loaderx._core")]
pub(crate) struct TarWalk(Walk);

#[pymethods]
impl TarWalk {
    #[new]
    fn new(named: Vec<(Vec<u8>, bool)>, last: Vec<Vec<u8>>) -> Self {
        Self(Walk::new(Arrays { named: named.into_iter().collect(), last }))
    }

    fn wanted(&self) -> (u64, u64) {
        self.0.wanted()
    }

    fn feed(&mut self, py: Python<'_>, content: Source<'_>, base: u64) -> PyResult<()> {
        let bytes = content.as_slice()?;
        detached(py, || self.0.feed(bytes, base))
    }

    fn finish(&self, py: Python<'_>, length: u64) -> PyResult<()> {
        self.0.finish(length).map_err(|error| error.raise(py))
    }

    fn fresh_headers<'py>(&mut self, py: Python<'py>) -> Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let headers = self.0.fresh_headers().into_iter();
        headers.map(|header| (PyBytes::new(py, &header.file), PyBytes::new(py, &header.bytes))).collect()
    }

    /// Takes them out.
    fn samples<'py>(&mut self, py: Python<'py>) -> Found<'py> {
        let samples = mem::replace(&mut self.0, Walk::new(Arrays::default())).into_samples();
        let files = samples.files.into_iter().map(|files| shown(py, files)).collect();
        (PyBytes::new(py, &samples.keys), PyArray1::from_vec(py, samples.key_ends), files)
    }
}

fn shown(py: Python<'_>, files: Files) -> Shown<'_> {
    let [samples, starts, sizes, headers] = [files.samples, files.starts, files.sizes, files.headers];
    let column = |values| PyArray1::from_vec(py, values);
    (PyBytes::new(py, &files.extension), column(samples), column(starts), column(sizes), column(headers))
}
