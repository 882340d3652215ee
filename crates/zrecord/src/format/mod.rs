//! Bytes <-> structs, no I/O. The text is `docs/format.md`; each struct has `encode` and `decode` and its tests beside it.

mod bytes;
mod entry;
mod header;
mod intent;
mod shapes;
mod sums;
mod sync_slot;

pub(crate) use bytes::take;
pub(crate) use entry::Entry;
pub(crate) use header::{FLAG_SHAPES, FLAG_SUMS, FLAG_UNIFORM, Header, HeaderFault, HeaderState};
pub(crate) use intent::{Change, Intent, IntentKind};
pub use shapes::{Dimensions, MAX_RANK, Shape};
pub(crate) use sums::Sum;
pub(crate) use sync_slot::SyncSlot;

/// Format version that this crate reads and writes.
pub const FORMAT_VERSION: u8 = 3;

/// Extension of the format that this crate reads and writes.
pub(crate) const EXTENSION: u8 = 1;

/// The longest record, in logical bytes.
pub const MAX_RECORD_LEN: u64 = 1 << 31;

/// Entries of one table segment, as a power of two.
pub(crate) const SEGMENT_BITS: u32 = 28;

/// The most bytes a chunk holds: its end must be representable as a tail offset.
pub(crate) const CHUNK_LIMIT: u32 = u32::MAX;

/// File names of a store.
pub(crate) mod names {
    pub(crate) const META: &str = "meta.zr";
    pub(crate) const DICT: &str = "dict.zr";
    pub(crate) const SYNC: &str = "sync.zr";
    pub(crate) const LOCK: &str = "lock.zr";
    pub(crate) const INTENT: &str = "intent.zr";
    pub(crate) const SCHEMA: &str = "schema.msgpack";
    pub(crate) const LOC: &str = "loc";
    pub(crate) const SUM: &str = "sum";
    pub(crate) const SHAPE: &str = "shape";
    pub(crate) const CHUNK: &str = "chunk";

    pub(crate) fn temporary(name: &str) -> String {
        format!("{name}.tmp")
    }
}
