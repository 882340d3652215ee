//! A reader of TFRecord framing and of `tf.train.Example`, for converters: bytes in memory to columns, no I/O.
//!
//! Formats: <https://www.tensorflow.org/tutorials/load_data/tfrecord> and `tensorflow/core/example/example.proto`. The bytes are foreign, so
//! nothing of what they say is trusted: every length is checked against what is there, and memory grows only with bytes that were read.

mod columns;
mod error;
mod example;
mod framing;
mod scan;
#[cfg(test)]
mod tests;
mod wire;

pub use columns::{Column, Values, columns};
pub use error::{Error, Result};
pub use example::Kind;
pub use framing::{FRAME, HEADER, Walk, walk};
pub use scan::{Seen, scan};
