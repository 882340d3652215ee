//! Where records lie, and what about it can't be right.

use crate::codec::Codec;
use crate::error::Error;
use crate::format::{Entry, Header, MAX_RECORD_LEN};
use crate::open::Open;

/// A zstd frame decodes to no more than 2^15 times its own length: a block of at least 4 bytes gives at most 2^17. A length beyond
/// that is damage, and would ask for memory that nothing on the disk justifies.
const ZSTD_GAIN_BITS: u32 = 15;

/// Whether a record can lie where its entry says, in a store with this header, and be as long as it says.
pub(crate) fn lies_within(entry: &Entry, header: &Header) -> bool {
    let lengths_agree = match header.codec {
        Codec::Raw => entry.stored == entry.logical,
        Codec::Zstd | Codec::ZstdDict => {
            u64::from(entry.logical) >> ZSTD_GAIN_BITS <= u64::from(entry.stored) && entry.stored > 0
        }
    };
    let below_tail = entry.chunk < header.tail_chunk
        || (entry.chunk == header.tail_chunk && entry.end() <= u64::from(header.tail_offset));
    lengths_agree && u64::from(entry.logical) <= MAX_RECORD_LEN && (below_tail || entry.stored == 0)
}

/// The error of a record for which [`lies_within`] doesn't hold.
#[cold]
pub(crate) fn misplaced(open: &Open, header: &Header, record: u64, entry: &Entry) -> Error {
    let Header { tail_chunk, tail_offset, codec, .. } = header;
    let found = format!("{} stored bytes for {} bytes", entry.stored, entry.logical);
    let expected = format!("a {} record before chunk {tail_chunk}, offset {tail_offset}", codec.name());
    corrupt(open, record, entry, "its table entry", found, expected)
}

/// A record of which `what` is not as it should be.
#[cold]
pub(crate) fn corrupt(
    open: &Open,
    record: u64,
    entry: &Entry,
    what: &'static str,
    found: String,
    expected: String,
) -> Error {
    Error::CorruptRecord {
        path: open.path(),
        record,
        chunk: entry.chunk,
        offset: entry.offset,
        what,
        found,
        expected,
    }
}

/// The error of a record that begins before another one ends; `None` if it doesn't. Both have bytes, and `next` doesn't lie before.
pub(crate) fn overlap(open: &Open, before: (u64, &Entry), next: (u64, &Entry)) -> Option<Error> {
    let ((other, before), (record, entry)) = (before, next);
    if entry.chunk != before.chunk || u64::from(entry.offset) >= before.end() {
        return None;
    }
    let found = format!("offset {}", entry.offset);
    let expected = format!("offset {} or beyond, where record {other} ends", before.end());
    Some(corrupt(open, record, entry, "it overlaps another record", found, expected))
}
