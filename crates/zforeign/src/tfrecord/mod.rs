//! TFRecord framing and `tf.train.Example`: bytes in memory to columns.
//!
//! Formats: <https://www.tensorflow.org/tutorials/load_data/tfrecord> and `tensorflow/core/example/example.proto`.

mod columns;
mod example;
mod framing;
mod scan;
#[cfg(test)]
mod tests;
mod wire;

pub use columns::{Column, Values, columns};
pub use example::Kind;
pub use framing::{FRAME, HEADER, Walk, walk};
pub use scan::{Seen, scan};
