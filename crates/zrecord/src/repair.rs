//! Making a store whole again: what a crash left, a lost header, unknown checksums, and, only on request, records that are damaged.

use std::path::Path;
use std::sync::Arc;

use crate::append::Writer;
use crate::checksum::crc32c;
use crate::error::{Error, Result};
use crate::format::{FLAG_SHAPES, FLAG_SUMS, FLAG_UNIFORM, Header, Sum, SyncSlot, names};
use crate::open::{Found, Open};
use crate::options::{Io, Options};
use crate::recover::{self, Condition};
use crate::storage::{Access, Directory};
use crate::verify::{Report, Watch, check_records};
use crate::{create, delete, lock, rows};

/// What a repair may do beyond what loses nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repair {
    /// Cut out the records that are damaged, by swap-last as a delete does: their indices go to records from the end.
    pub drop_damaged: bool,
    /// Take the bytes as they are and make all checksums anew, also where they are known: for when the checksums are what is damaged.
    pub rebuild_sums: bool,
}

/// What a repair found and did.
#[derive(Debug, Default)]
pub struct Repaired {
    /// What was found, after everything but the records was mended.
    pub found: Report,
    /// The records that were cut out, by the indices that they had, in ascending order.
    pub dropped: Vec<u64>,
    /// Whether `meta.zr` was lost and made anew, from the last sync and what was appended since.
    pub header_restored: bool,
    /// Whether a delete or compact that had been cut short was finished.
    pub finished: bool,
    /// Appended records that a crash had left in part, and that no sync covered.
    pub torn: u64,
    /// Whether checksums were made.
    pub sums_rebuilt: bool,
    /// Whether the checksum of the dictionary, which nothing told any more, was made from the one that is there.
    pub dictionary_noted: bool,
}

/// Mend the store at `path`, alone: nobody else may have it open.
///
/// What loses nothing is always done: a delete or compact that was cut short is finished, an append that a crash tore is dropped, a
/// header that is lost is made anew from `sync.zr` and the records behind it, and checksums that a plain version 3 writer left unknown are
/// made. Records that are damaged stay, and stay damaged, unless `how` says otherwise.
///
/// It can be interrupted, or killed, at any point, and run again.
///
/// # Errors
/// As [`crate::verify`], and [`Error::Locked`] if anyone else has the store open. A damaged dictionary can't be mended.
pub fn repair(path: &Path, how: Repair, watch: Watch<'_>) -> Result<Repaired> {
    let options = Options::new().io(Io::Pread);
    repair_in(&create::existing_directory(path, &options)?, &options, how, watch)
}

pub(crate) fn repair_in(
    dir: &Arc<dyn Directory>,
    options: &Options,
    how: Repair,
    watch: Watch<'_>,
) -> Result<Repaired> {
    let header_restored = restore_header(dir, options)?;
    let (open, found) = Open::load(dir, options)?;
    open.meta.move_to(
        &dir.open(names::META, Access::Write).map_err(Error::io("open", dir.path().join(names::META)))?,
    );
    lock::exclude(dir.path(), &*open.meta, "repair")?;
    let left = recover::examine(&open, &found)?;
    let mut writer = Writer::acquire(&open, options)?;
    open.publish(writer.header);
    let mut done = Repaired {
        header_restored,
        finished: matches!(left, Condition::Unfinished(_)),
        torn: match left {
            Condition::Tail { header, .. } => header.length.saturating_sub(writer.header.length),
            _ => 0,
        },
        ..Repaired::default()
    };
    done.found.torn = done.torn;
    if writer.header.has(FLAG_SUMS) && !how.rebuild_sums {
        done.found.sums_known = true;
        check_records(&open, &writer.header, true, &mut done.found, &mut |_, _| Ok(()), watch)?;
    } else {
        rebuild_sums(&open, &mut writer, &mut done.found, watch)?;
        done.sums_rebuilt = true;
    }
    done.found.records = writer.header.length;
    if how.drop_damaged || done.found.damaged.is_empty() {
        lower_tail(&open, &mut writer)?;
    }
    if how.drop_damaged && !done.found.damaged.is_empty() {
        delete::delete(&open, &mut writer, &done.found.damaged)?;
        // Of a chunk that was cut there may be nothing left.
        writer.chunks.remove_empty()?;
        done.dropped.clone_from(&done.found.damaged);
    }
    writer.sync()?;
    if let Some(dictionary) = open.dictionary().filter(|_| !writer.states_dictionary()) {
        // Every record that is not reported decoded with it.
        writer.note_dictionary(crc32c(dictionary.bytes()))?;
        done.dictionary_noted = true;
    }
    open.release();
    Ok(done)
}

/// Make the checksums of all records from their bytes as they are. Damaged records get one that no bytes of theirs have but by chance.
fn rebuild_sums(open: &Open, writer: &mut Writer, report: &mut Report, watch: Watch<'_>) -> Result<()> {
    /// Sums that are kept before they are written.
    const KEPT: usize = if cfg!(any(test, fuzzing)) { 4 } else { 1 << 18 };

    // Who doesn't trust the sums has perhaps let another writer at the store, and from here on the table is what counts.
    let header = Header { flags: writer.header.flags & !(FLAG_SUMS | FLAG_UNIFORM), ..writer.header };
    if header != writer.header {
        // From here until the end they are unknown, whatever happens.
        writer.write_header(header)?;
        writer.sync()?;
    }
    writer.sum.cut(0)?;
    let mut kept: Vec<(u64, Sum)> = Vec::new();
    check_records(
        open,
        &header,
        false,
        report,
        &mut |record, sum| {
            kept.push((record, sum));
            if kept.len() < KEPT { Ok(()) } else { rows::write_sums(writer, &mut kept) }
        },
        watch,
    )?;
    rows::write_sums(writer, &mut kept)?;
    writer.loc.check_segments(header.length)?;
    writer.sum.extend(header.length)?;
    writer.sync_tables()?;
    writer.sync_names()?;
    let header = Header { flags: header.flags | FLAG_SUMS, ..header };
    writer.write_header(header)?;
    writer.sync()?;
    open.publish(header);
    Ok(())
}

/// Let the tail be where the tail chunk ends, if that was cut: no record lies behind it, or those that do are about to go.
fn lower_tail(open: &Open, writer: &mut Writer) -> Result<()> {
    let header = writer.header;
    let length = match open.chunks.length(header.tail_chunk.into()) {
        Err(Error::CorruptStore { .. }) => 0,
        length => length?,
    };
    match u32::try_from(length) {
        Ok(tail_offset) if tail_offset < header.tail_offset => {
            writer.write_header(Header { tail_offset, flags: header.flags & !FLAG_UNIFORM, ..header })?;
            writer.sync()
        }
        _ => Ok(()),
    }
}

/// Make `meta.zr` anew if it is lost: from the last sync, and with the records behind it that are whole.
fn restore_header(dir: &Arc<dyn Directory>, options: &Options) -> Result<bool> {
    let judged = Open::load(dir, options).and_then(|(open, found)| recover::examine(&open, &found).map(drop));
    let Err(e) = judged else { return Ok(false) };
    let Some(slot) = recover::lost_header(&**dir, &e)? else { return Err(e) };
    let path = dir.path().join(names::META);
    let fail = |verb| Error::io(verb, path.clone());

    let slots =
        dir.open(names::SYNC, Access::Write).map_err(Error::io("open", dir.path().join(names::SYNC)))?;
    lock::mend(&**dir, &*slots)?;
    let _writing = lock::write(&**dir)?;
    let meta = dir.open(names::META, Access::Write).map_err(fail("open"))?;
    lock::exclude(dir.path(), &*meta, "repair")?;
    let open = Open::assemble(dir, meta.clone(), &Found::of_slot(slot), options)?;
    let header = header_of_files(&open, &slot)?;
    meta.set_len(Header::SIZE as u64).map_err(fail("resize"))?;
    meta.write_at(&header.encode(), 0).map_err(fail("write"))?;
    meta.sync().map_err(fail("sync"))?;
    dir.sync().map_err(Error::io("sync", dir.path()))?;
    Ok(true)
}

/// The header of the last sync, or of the last whole record behind it.
fn header_of_files(open: &Open, slot: &SyncSlot) -> Result<Header> {
    let durable = slot.header;
    // Each step of a compaction that is stated raises the generation, and the slot is written when all is done.
    let ahead = |generation: u32| (1..1 << 31).contains(&generation.wrapping_sub(durable.generation));
    if let Some(intent) = recover::stated(open, &ahead)? {
        return Ok(Header { generation: intent.header.generation.wrapping_sub(1), ..durable });
    }
    if !durable.has(FLAG_SUMS) {
        // Nothing tells which records are whole.
        return Ok(durable);
    }
    let shapes = if open.shape.existing(&(0..1))? > 0 { FLAG_SHAPES } else { 0 };
    let beyond = Header {
        length: u64::MAX,
        tail_chunk: u32::MAX,
        tail_offset: u32::MAX,
        // What was appended since may be of other lengths.
        flags: (durable.flags | shapes) & !FLAG_UNIFORM,
        ..durable
    };
    recover::last_whole(open, &beyond, &durable)
}
