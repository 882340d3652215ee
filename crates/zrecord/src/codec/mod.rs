//! Bytes to bytes: how a record is stored, raw or as a zstd frame, and the dictionaries for it.

mod decoder;
mod dict;
mod encoder;
mod error;
mod frames;
mod kind;
mod plain_frame;
mod raw;
#[cfg(test)]
pub(crate) mod samples;
mod train;
mod uninit;
mod zstd;

pub(crate) use decoder::Decoder;
pub(crate) use dict::Dictionary;
pub(crate) use encoder::Encoder;
pub use error::CodecError;
pub use frames::{Frames, Places};
pub use kind::Codec;
pub use train::build_dict;
