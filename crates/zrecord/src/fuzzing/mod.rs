//! What the fuzz targets in `fuzz/` run, and what ordinary tests replay: bytes in, a panic where a law is broken.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "for tests and fuzzing only: a panic is a finding"
)]

mod bases;
mod damage;
mod decode;
mod input;
mod open;
mod ops;
#[cfg(test)]
mod replay;

pub use decode::decode;
pub use open::open;
pub use ops::ops;
