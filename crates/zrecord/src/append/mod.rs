//! The write path: check -> encode (parallel) -> place (serial arithmetic) -> flush (large writes) -> commit.

mod commit;
mod encode;
mod flush;
mod place;
mod records;
mod writer;

pub use records::Records;
pub(crate) use writer::Writer;

use crate::codec::{Codec, Encoder};
use crate::error::{Error, Result};
use crate::format::{Entry, FLAG_UNIFORM, Header, MAX_RECORD_LEN, Shape, Sum};
use crate::open::Open;
use crate::options::Options;
use crate::uniform::Uniform;
use encode::WINDOW_BYTES;

/// Append all of `records`, or nothing; returns the first new index.
pub(crate) fn append(
    open: &Open,
    writer: &mut Writer,
    records: &Records<'_>,
    shapes: Option<&[Shape]>,
    options: &Options,
) -> Result<u64> {
    let encoder = Encoder::new(open.codec, open.level, open.dictionary())?;
    let first = writer.header.length;
    let mut header = writer.header;
    let uniform = Uniform::known(open, &header)?;
    let is_new = header.length == 0 && (header.tail_chunk, header.tail_offset) == (0, 0);
    let may_be_uniform = is_new || uniform.is_some();
    let mut entries = Vec::with_capacity(records.len());
    let mut sums = Vec::with_capacity(records.len());
    let mut start = 0;
    while start < records.len() {
        let end = records.window(start, WINDOW_BYTES);
        let blocks = encode::encode(&encoder, records, start..end)?;
        let placed = place::place(&mut header, &blocks, options.chunk_limit, &mut entries, &mut sums)?;
        flush::flush(writer, &placed)?;
        start = end;
    }
    header.flags &= !FLAG_UNIFORM;
    if may_be_uniform && Uniform::holds(uniform, first, &entries, &header) {
        header.flags |= FLAG_UNIFORM;
    }
    commit::commit(writer, header, &entries, &sums, shapes)?;
    open.publish(writer.header);
    Ok(first)
}

/// Everything that can be refused is refused here, before a byte is written.
pub(crate) fn check(
    open: &Open,
    header: &Header,
    records: &Records<'_>,
    shapes: Option<&[Shape]>,
) -> Result<()> {
    if records.is_empty() {
        return Err(Error::InvalidArgument("append needs at least one record, got none".to_owned()));
    }
    if let Some(shapes) = shapes
        && shapes.len() != records.len()
    {
        let (found, expected) = (shapes.len(), records.len());
        return Err(Error::InvalidArgument(format!("append got {found} shapes for {expected} records")));
    }
    for record in 0..records.len() {
        let found = records.get(record).len() as u64;
        if found > MAX_RECORD_LEN {
            return Err(Error::RecordTooLong { record, found, limit: MAX_RECORD_LEN });
        }
    }
    if header.length.checked_add(records.len() as u64).is_none() {
        return Err(Error::InvalidArgument("the store is full: its length would pass 2^64".to_owned()));
    }
    if open.codec == Codec::ZstdDict && open.dictionary().is_none() {
        return Err(open.missing_dictionary(
            "it can't be appended to; train one on the settled data (train_dict) and install it (install_dict)",
        ));
    }
    Ok(())
}

/// A record as it will lie in a chunk, before it is known where.
#[derive(Clone, Copy, Debug)]
struct Piece {
    stored: u32,
    logical: u32,
    sum: Sum,
}

impl Piece {
    fn new(stored: &[u8], stored_length: u32, logical: u32) -> Self {
        let entry = Entry { stored: stored_length, logical, ..Entry::default() };
        Self { stored: stored_length, logical, sum: Sum::of(stored, &entry) }
    }
}
