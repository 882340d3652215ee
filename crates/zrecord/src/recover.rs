//! What a crash, or a plain version 3 writer, left: judged when a store is opened, mended when a writer is there.

use crate::append::Writer;
use crate::error::{Error, Result};
use crate::format::{
    Entry, FLAG_SHAPES, FLAG_SUMS, FLAG_UNIFORM, Header, HeaderState, Intent, Shape, Sum, SyncSlot, names,
    take,
};
use crate::layout::lies_within;
use crate::open::{Found, Open};
use crate::rows;
use crate::storage::{Access, Directory, read_small, read_start, zeroed};

/// How a store was left.
#[derive(Debug)]
pub(crate) enum Condition {
    /// The header holds.
    Settled(Header),
    /// The records from `durable` on were never synced: after a crash of the machine they may not be there.
    Tail { header: Header, durable: Header },
    /// A delete or a step of a compaction was cut short.
    Unfinished(Box<Intent>),
}

impl Condition {
    /// The header as its writer left it.
    pub(crate) fn header(self, open: &Open) -> Result<Header> {
        match self {
            Self::Settled(header) | Self::Tail { header, .. } => Ok(header),
            Self::Unfinished(_) => Err(Error::Unfinished { path: open.path() }),
        }
    }
}

/// Judge what was found; reads a few bytes, whatever the size of the store.
pub(crate) fn examine(open: &Open, found: &Found) -> Result<Condition> {
    match found.state {
        HeaderState::Ours => examine_ours(open, found),
        HeaderState::Plain => examine_plain(open, found),
        HeaderState::Mismatch => examine_mismatch(open, found),
    }
}

/// A plain version 3 writer keeps the reserved bytes as they are: beside a slot of ours they can't be zero.
fn examine_plain(open: &Open, found: &Found) -> Result<Condition> {
    if found.slot.is_none() {
        return Ok(Condition::Settled(found.header));
    }
    let expected = "those that the sync slots state, which no writer makes zero";
    Err(Error::corrupt(
        open.dir.path().join(names::META),
        "the reserved bytes of the header",
        "zeros",
        expected,
    ))
}

fn examine_ours(open: &Open, found: &Found) -> Result<Condition> {
    let header = found.header;
    if let Some(intent) = pending(open, &header)? {
        return Ok(Condition::Unfinished(Box::new(intent)));
    }
    let Some(durable) = found.slot.map(|slot| slot.header) else { return Ok(Condition::Settled(header)) };
    if durable.generation == header.generation {
        return Ok(match header.length.cmp(&durable.length) {
            std::cmp::Ordering::Less => Condition::Settled(durable),
            std::cmp::Ordering::Equal => Condition::Settled(header),
            std::cmp::Ordering::Greater => Condition::Tail { header, durable },
        });
    }
    // A delete or compact makes its header durable before its slot, so a newer header is whole; an older one was lost.
    let slot_is_newer = durable.generation.wrapping_sub(header.generation) < 1 << 31;
    Ok(Condition::Settled(if slot_is_newer { durable } else { header }))
}

/// The intent that is to be finished, if there is one.
fn pending(open: &Open, header: &Header) -> Result<Option<Intent>> {
    let next = header.generation.wrapping_add(1);
    let Some(intent) = stated(open, &|generation| generation == next)? else { return Ok(None) };
    let beyond = intent.changes.iter().find(|change| change.record >= intent.header.length);
    if let Some(change) = beyond {
        let path = open.dir.path().join(names::INTENT);
        let expected = format!("a record before {}", intent.header.length);
        return Err(Error::corrupt(path, "a stated change", format!("record {}", change.record), expected));
    }
    Ok(Some(intent))
}

/// The intent that is there, if it is whole and of a generation that is `wanted`.
pub(crate) fn stated(open: &Open, wanted: &dyn Fn(u32) -> bool) -> Result<Option<Intent>> {
    let path = || open.dir.path().join(names::INTENT);
    let start = read_start(&*open.dir, names::INTENT, Intent::FIXED).map_err(Error::io("read", path()))?;
    let announced = start.as_deref().and_then(Intent::announced);
    let Some((_, size)) = announced.filter(|&(generation, _)| wanted(generation)) else { return Ok(None) };
    let file = open.dir.open(names::INTENT, Access::Read).map_err(Error::io("open", path()))?;
    if file.len().map_err(Error::io("read", path()))? != size {
        return Ok(None);
    }
    let bytes = read_small(&*open.dir, names::INTENT, size).map_err(Error::io("read", path()))?;
    Ok(bytes.as_deref().and_then(Intent::decode))
}

/// Whether no stated change waits to be finished.
pub(crate) fn is_settled(open: &Open) -> bool {
    let condition = Found::read(&*open.dir, &*open.meta).and_then(|found| examine(open, &found));
    matches!(condition, Ok(Condition::Settled(_) | Condition::Tail { .. }))
}

/// A writer cuts what lies behind the tail, and writes there. If the header is not ours and its tail went back since the last sync, that is
/// a plain writer's compaction, or damage: then no record may lie there. Reads the whole table.
pub(crate) fn check_tail(open: &Open, found: &Found, header: &Header) -> Result<()> {
    let tail = |header: &Header| (header.tail_chunk, header.tail_offset);
    if found.slot.is_none_or(|slot| tail(header) >= tail(&slot.header))
        || found.state != HeaderState::Mismatch
    {
        return Ok(());
    }
    rows::scan(open, header.length, |record, entry| {
        if lies_within(&entry, header) {
            return Ok(());
        }
        Err(header_damaged(open, &format!("a mismatch, and record {record} beyond the tail")))
    })
}

fn header_damaged(open: &Open, found: &str) -> Error {
    let expected = "a header of this writer or of a plain version 3 writer";
    Error::corrupt(open.dir.path().join(names::META), "the checksum of the header", found, expected)
}

/// Written by a plain version 3 writer, or damaged? Every fact that the header states must be able to be true.
fn examine_mismatch(open: &Open, found: &Found) -> Result<Condition> {
    let damaged = |what: &str| header_damaged(open, what);
    let slot = found.slot.ok_or_else(|| damaged("a mismatch, and no sync slot to compare with"))?;
    let synced = slot.header.encode();
    let parts = |bytes: &[u8; Header::SIZE]| (take::<22>(bytes, 0), take::<6>(bytes, 22));
    let ((fields, ours), (synced_fields, synced_ours)) = (parts(&found.bytes), parts(&synced));
    if fields == synced_fields {
        // Nobody wrote anything: it is our own part that is damaged, and the slot has it whole.
        return examine_ours(open, &Found { header: slot.header, state: HeaderState::Ours, ..*found });
    }
    if ours != synced_ours {
        return Err(damaged("a mismatch, and other reserved bytes than at the last sync"));
    }
    if slot.header.codec != found.header.codec {
        return Err(damaged("a mismatch, and another codec than at the last sync"));
    }
    if slot.header.has(FLAG_SHAPES) {
        return Err(damaged("a mismatch in a store with shapes, which a plain writer can't keep"));
    }
    // Whoever holds the store open from before must notice.
    let generation = slot.header.generation.wrapping_add(1);
    let header = Header { flags: 0, generation, ..found.header };
    open.check_lengths(&header).map_err(|e| match e {
        Error::CorruptStore { .. } => damaged(&format!("a mismatch, and {e}")),
        other => other,
    })?;
    if header.tail_offset == 0
        && let Some(full) = header.tail_chunk.checked_sub(1)
        && open.chunks.length(full.into()).is_err()
    {
        return Err(damaged("a mismatch, and a tail behind a chunk that is missing"));
    }
    if let Some(last) = header.length.checked_sub(1) {
        let mut bytes = [0; Entry::SIZE];
        open.loc.read_range(last, &mut bytes)?;
        if !lies_within(&Entry::decode(&bytes), &header) {
            return Err(damaged("a mismatch, and a last record beyond the tail"));
        }
    }
    Ok(Condition::Settled(header))
}

/// The header that ends before the first record after `durable` that is not what was appended.
pub(crate) fn cut_tail(open: &Open, header: &Header, durable: &Header) -> Result<Header> {
    let whole = last_whole(open, header, durable);
    // The files that were looked at may be removed now, and made again under the same names.
    open.forget_files();
    whole
}

/// The header, as far as `header`, of the last record of an unbroken run of whole ones after `durable`. Its tail is where these end: the
/// header's own can be an older one's, that a power cut brought back over later records.
pub(crate) fn last_whole(open: &Open, header: &Header, durable: &Header) -> Result<Header> {
    let mut whole = *durable;
    for record in durable.length..header.length {
        match whole_record(open, header, record) {
            Ok(Some(entry)) => {
                let end = (entry.chunk, u32::try_from(entry.end()).unwrap_or(u32::MAX));
                // The tail never goes back: where the row of an empty record was lost, zeros are an empty record too, at the start.
                let (tail_chunk, tail_offset) = end.max((whole.tail_chunk, whole.tail_offset));
                let flags =
                    if end < (tail_chunk, tail_offset) { header.flags & !FLAG_UNIFORM } else { header.flags };
                whole = Header { length: record + 1, tail_chunk, tail_offset, flags, ..*header };
            }
            Ok(None) | Err(Error::CorruptStore { .. }) => return Ok(whole),
            Err(e) => return Err(e),
        }
    }
    Ok(whole)
}

/// The entry of a record whose bytes are those that were appended, as far as sums are kept.
fn whole_record(open: &Open, header: &Header, record: u64) -> Result<Option<Entry>> {
    let mut bytes = [0; Entry::SIZE];
    open.loc.read_range(record, &mut bytes)?;
    let entry = Entry::decode(&bytes);
    if !lies_within(&entry, header) {
        return Ok(None);
    }
    if !header.has(FLAG_SUMS) {
        return Ok(Some(entry));
    }
    let mut sum = [0; Sum::SIZE];
    open.sum.read_range(record, &mut sum)?;
    let mut shape = [0; Shape::SIZE];
    if header.has(FLAG_SHAPES) {
        open.shape.read_range(record, &mut shape)?;
    }
    let found = Sum::of(&read_stored(open, &entry)?, &entry).with_shape(&Shape::decode(&shape));
    Ok((found == Sum::decode(&sum)).then_some(entry))
}

/// A record's stored bytes. Memory is asked for only once the chunk is known to be that long.
pub(crate) fn read_stored(open: &Open, entry: &Entry) -> Result<Vec<u8>> {
    if entry.stored == 0 {
        return Ok(Vec::new());
    }
    let chunk = u64::from(entry.chunk);
    let found = open.chunks.length(chunk)?;
    if found < entry.end() {
        let expected = format!("at least {} bytes", entry.end());
        return Err(Error::corrupt(open.chunks.path(chunk), "the length of a chunk", found, expected));
    }
    let mut bytes = zeroed(entry.stored as usize).map_err(|e| open.chunks.fail(chunk, e))?;
    let file = open.chunks.get(chunk)?;
    file.file().read_at(&mut bytes, u64::from(entry.offset)).map_err(|e| open.chunks.fail(chunk, e))?;
    Ok(bytes)
}

/// Finish a stated change: payload, entries, then the header, all durable before the intent goes. Replaying it again is harmless.
pub(crate) fn replay(writer: &mut Writer, intent: &Intent) -> Result<()> {
    if !intent.payload.is_empty() {
        let chunk = u64::from(intent.payload_chunk);
        writer.chunks.write(chunk, &intent.payload, u64::from(intent.payload_offset))?;
        writer.chunks.sync()?;
    }
    rows::write(writer, &intent.header, &intent.changes)?;
    writer.sync_tables()?;
    writer.write_header(intent.header)?;
    writer.sync_header()
}

/// The last synced header of a store whose `meta.zr` is missing or no header at all, `e` being what reading it gave.
pub(crate) fn lost_header(dir: &dyn Directory, e: &Error) -> Result<Option<SyncSlot>> {
    let lost = match e {
        Error::NotAStore { .. } | Error::UnsupportedVersion { .. } | Error::UnsupportedCodec { .. } => true,
        Error::CorruptStore { path, .. } => *path == dir.path().join(names::META),
        _ => false,
    };
    if !lost {
        return Ok(None);
    }
    let slots = read_start(dir, names::SYNC, SyncSlot::FILE_SIZE);
    let slots = slots.map_err(Error::io("read", dir.path().join(names::SYNC)))?;
    Ok(slots.as_deref().and_then(SyncSlot::newest))
}
