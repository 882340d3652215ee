//! The functions `verify` and `repair`.

use std::path::PathBuf;

use numpy::PyArray1;
use pyo3::prelude::*;
use zrecord::{Error, Progress, Repair};

use crate::error::detached;

/// What `verify` found; see `loaderx.dataset.integrity.Report`.
#[derive(IntoPyObject)]
pub(crate) struct Report<'py> {
    records: u64,
    sound: u64,
    bytes: u64,
    sums_known: bool,
    unfinished: bool,
    torn: u64,
    damaged: Bound<'py, PyArray1<u64>>,
    problems: Vec<(Option<u64>, String)>,
    problem_count: u64,
}

/// What `repair` found and did; see `loaderx.dataset.integrity.Repaired`.
#[derive(IntoPyObject)]
pub(crate) struct Repaired<'py> {
    found: Report<'py>,
    dropped: Bound<'py, PyArray1<u64>>,
    header_restored: bool,
    finished: bool,
    torn: u64,
    sums_rebuilt: bool,
    dictionary_noted: bool,
}

/// Read and check everything in the store at `path`. `progress(done, total)` is called now and then, in records.
#[pyfunction]
#[pyo3(signature = (path, progress = None))]
pub(crate) fn verify(py: Python<'_>, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<Report<'_>> {
    let report = watched(py, progress, |watch| zrecord::verify(&path, watch))?;
    Ok(shown(py, report))
}

/// Mend the store at `path`, which nobody else may have open. Damaged records go only with `drop_damaged`.
#[pyfunction]
#[pyo3(signature = (path, drop_damaged = false, rebuild_sums = false, progress = None))]
pub(crate) fn repair(
    py: Python<'_>,
    path: PathBuf,
    drop_damaged: bool,
    rebuild_sums: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<Repaired<'_>> {
    let how = Repair { drop_damaged, rebuild_sums };
    let done = watched(py, progress, |watch| zrecord::repair(&path, how, watch))?;
    Ok(Repaired {
        found: shown(py, done.found),
        dropped: PyArray1::from_vec(py, done.dropped),
        header_restored: done.header_restored,
        finished: done.finished,
        torn: done.torn,
        sums_rebuilt: done.sums_rebuilt,
        dictionary_noted: done.dictionary_noted,
    })
}

fn shown(py: Python<'_>, report: zrecord::Report) -> Report<'_> {
    let record = |problem: &Error| match problem {
        Error::CorruptRecord { record, .. } => Some(*record),
        _ => None,
    };
    Report {
        records: report.records,
        sound: report.sound,
        bytes: report.bytes,
        sums_known: report.sums_known,
        unfinished: report.unfinished,
        torn: report.torn,
        damaged: PyArray1::from_vec(py, report.damaged),
        problems: report.problems.iter().map(|problem| (record(problem), problem.to_string())).collect(),
        problem_count: report.problem_count,
    }
}

/// Long work with the interpreter released, which a signal, or an exception of `progress`, ends.
fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(zrecord::Watch<'_>) -> zrecord::Result<T> + Send,
) -> PyResult<T> {
    let mut raised = None;
    let mut watch = |Progress { done, total }: Progress| {
        let told = Python::attach(|py| {
            py.check_signals()?;
            progress.as_ref().map_or(Ok(()), |progress| progress.call1(py, (done, total)).map(drop))
        });
        raised = told.err();
        raised.is_none()
    };
    let outcome = detached(py, || work(&mut watch));
    match raised {
        Some(raised) => Err(raised),
        None => outcome,
    }
}
