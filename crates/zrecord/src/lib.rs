#![doc = include_str!("../README.md")]

mod append;
mod checksum;
mod codec;
mod compact;
mod copy;
mod create;
mod delete;
mod error;
mod format;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gather;
mod layout;
mod lock;
mod open;
mod options;
mod pool;
mod prefetch;
mod published;
mod recover;
mod repair;
mod rows;
mod settle;
mod stats;
mod storage;
mod store;
#[cfg(any(test, fuzzing))]
mod tests;
mod uniform;
mod verify;
mod view;

pub use append::Records;
pub use checksum::crc32c;
pub use codec::{Codec, CodecError, Frames, Places, build_dict};
pub use create::{read_file, replace_file};
pub use error::{Error, Result};
pub use format::{Dimensions, FORMAT_VERSION, MAX_RANK, MAX_RECORD_LEN, Shape};
pub use options::{Io, Options, Verify};
pub use pool::{on_this_thread, panic_text};
pub use repair::{Repair, Repaired, repair};
pub use stats::{Mapping, Stats};
pub use store::Store;
pub use verify::{Progress, Report, Watch, verify};
pub use view::View;
