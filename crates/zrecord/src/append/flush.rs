//! Stage three: bytes to the chunk files, behind everything committed.

use std::sync::{Arc, Mutex, PoisonError};

use super::Writer;
use super::place::Run;
use crate::error::{Error, Result};
use crate::pool;
use crate::storage::File;

/// Below this, one thread writes everything.
const PARALLEL_BYTES: usize = 4 << 20;

/// Write all runs; nothing of it is in the table yet.
pub(super) fn flush(writer: &mut Writer, runs: &[Run<'_>]) -> Result<()> {
    let files = runs.iter().map(|run| writer.chunks.get(run.chunk.into())).collect::<Result<Vec<_>>>()?;
    let write = |run: &Run<'_>, file: &Arc<dyn File>| {
        let name = || format!("{}.chunk", run.chunk);
        file.write_at(run.bytes, run.offset.into()).map_err(|e| writer.fail("write", &name())(e))
    };
    let total: usize = runs.iter().map(|run| run.bytes.len()).sum();
    if total < PARALLEL_BYTES {
        return runs.iter().zip(&files).try_for_each(|(run, file)| write(run, file));
    }
    let first_failure = Mutex::new(Ok(()));
    pool::run(runs.len(), pool::threads(), &|i| {
        if let (Some(run), Some(file)) = (runs.get(i), files.get(i))
            && let Err(e) = write(run, file)
        {
            let mut outcome = first_failure.lock().unwrap_or_else(PoisonError::into_inner);
            if outcome.is_ok() {
                *outcome = Err(e);
            }
        }
    })
    .map_err(|e| Error::Internal(e.to_string()))?;
    first_failure.into_inner().unwrap_or_else(PoisonError::into_inner)
}
