//! What can fail on the way from a step to its batch.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use zrecord::panic_text;

/// The result of what draws, gathers or hands over.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can fail on the way from a step to its batch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument that doesn't fit the others, or a step that is not to be had any more.
    #[error("{0}")]
    InvalidArgument(String),
    /// The order refused.
    #[error(transparent)]
    Order(#[from] zsampler::Error),
    /// A store refused.
    #[error(transparent)]
    Store(#[from] zrecord::Error),
    /// The system has no memory for a batch.
    #[error("there is no memory for a batch of {bytes} bytes")]
    OutOfMemory {
        /// What the batch takes.
        bytes: u64,
    },
    /// No thread could be started.
    #[error("could not start a thread: {source}")]
    NoThread {
        /// Why not.
        source: io::Error,
    },
    /// A fault of this library.
    #[error("internal error: {0}")]
    Internal(String),
}

/// Run `work`; a panic of it is an error.
pub(crate) fn caught<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // Nothing of work that panicked is seen again but what the stores keep behind their own locks.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(Error::Internal(panic_text(panic))))
}
