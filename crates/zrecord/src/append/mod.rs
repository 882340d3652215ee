//! The write path: check -> trial (which matches to look for) -> encode (parallel) -> place (serial arithmetic) -> flush (large writes) -> commit.
//! While one block of records is placed and flushed, the next ones are encoded.

mod behind;
mod commit;
mod encode;
mod flush;
mod ordered;
mod place;
mod records;
mod sync_ahead;
mod trial;
mod writer;

pub use records::Records;
pub(crate) use writer::Writer;

use crate::codec::{Codec, Encoder};
use crate::error::{Error, Result};
use crate::format::{Header, MAX_RECORD_LEN, Shape};
use crate::open::Open;
use crate::options::Options;
use crate::uniform::{Growing, Uniform};
use flush::Flush;

/// Bytes of records that are in work at once: what an append takes in memory beside the caller's own, at most, unless one record is larger.
const IN_WORK_BYTES: usize = 64 << 20;

/// Append all of `records`, or nothing; returns the first new index.
pub(crate) fn append(
    open: &Open,
    writer: &mut Writer,
    records: &Records<'_>,
    shapes: Option<&[Shape]>,
    options: &Options,
) -> Result<u64> {
    let encoder = Encoder::new(open.codec, open.level, open.dictionary())?;
    let encoder = writer.trial.choose(records, encoder)?;
    let shapes = shapes.filter(|shapes| !shapes.iter().all(Shape::is_plain));
    let first = writer.header.length;
    let rooms = std::mem::take(&mut writer.rooms);
    let growing = Growing::from(&writer.header, Uniform::known(open, &writer.header)?);
    let mut flush = Flush::new(writer, growing, options.chunk_limit, &rooms, records.bytes());
    let blocks = encode::divide(records);
    let range = |i: usize| blocks.get(i).cloned().unwrap_or_default();
    ordered::run(
        blocks.len(),
        IN_WORK_BYTES,
        &|i| records.window(range(i).start, usize::MAX, range(i).len()).1,
        &|i| encode::encode(&encoder, records, range(i), shapes, &rooms),
        &mut |block| flush.take(block),
    )?;
    let header = flush.finish()?;
    commit::commit(writer, header, shapes)?;
    writer.rooms = rooms;
    open.publish(writer.header);
    if first == 0 {
        // All of the table is this writer's own.
        open.agrees(|| Ok(true))?;
    }
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
    if let Some((record, found)) = records.first_longer(MAX_RECORD_LEN) {
        return Err(Error::RecordTooLong { record, found, limit: MAX_RECORD_LEN });
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
