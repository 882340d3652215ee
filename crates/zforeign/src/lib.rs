//! Readers of containers that others made, for converters: bytes in memory to places and columns, no I/O.
//!
//! The bytes are foreign, so nothing of what they say is trusted: every length is checked against what is there, and memory grows only with
//! bytes that were read.

mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod tar;
pub mod tfrecord;

pub use error::{Error, Result};
