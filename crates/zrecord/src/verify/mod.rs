//! Reading and checking everything that a store holds: header, slots, dictionary, tables, and the bytes of every record.

mod report;
mod survey;
mod walk;

use std::path::Path;
use std::sync::Arc;

pub use report::{Progress, Report, Watch};

use crate::codec::Codec;
use crate::create;
use crate::error::{Error, Result};
use crate::format::{FLAG_SUMS, Header, HeaderState, Sum, names};
use crate::open::{Found, Open};
use crate::options::{Io, Options};
use crate::recover;
use crate::settle;
use crate::storage::Directory;
use survey::{Row, Survey};
use walk::Walk;

/// Read and check everything in the store at `path`; nothing is changed. What is wrong is in the report; an error is what kept it from being made.
///
/// Checked are the header, its copies in `sync.zr`, the dictionary, every row of the tables (within the store, of possible lengths, a shape that
/// fits), that no two records share bytes, and the bytes of each record against its checksum, decoded too if compressed. Bytes are read by positional
/// reads, in the order in which they lie, and a sector that can't be read costs only the records on it. Others may read and append meanwhile.
///
/// Takes about 100 MiB, and twice the longest record a thread.
///
/// # Errors
/// [`Error::NotFound`], [`Error::NotAStore`], an unsupported version or codec, [`Error::Locked`] while it is deleted from or compacted,
/// [`Error::Interrupted`], I/O.
pub fn verify(path: &Path, watch: Watch<'_>) -> Result<Report> {
    let options = Options::new().io(Io::Pread).read_only(true);
    verify_in(&create::existing_directory(path, &options)?, &options, watch)
}

pub(crate) fn verify_in(dir: &Arc<dyn Directory>, options: &Options, watch: Watch<'_>) -> Result<Report> {
    let mut report = Report::default();
    let (open, found) = match Open::load(dir, options) {
        Ok(loaded) => loaded,
        Err(e) if is_damage(&e) || recover::lost_header(&**dir, &e)?.is_some() => {
            report.add(e);
            return Ok(report);
        }
        Err(e) => return Err(e),
    };
    match settle::settle(&open, &found, &options.clone().read_only(true)) {
        Ok(()) => {}
        Err(e @ Error::Unfinished { .. }) => {
            report.unfinished = true;
            report.add(e);
            return Ok(report);
        }
        Err(e) if is_damage(&e) => {
            report.add(e);
            return Ok(report);
        }
        Err(e) => return Err(e),
    }
    let header = open.header();
    check_small_files(&open, &found, &header, &mut report);
    report.records = header.length;
    report.sums_known = header.has(FLAG_SUMS);
    if header.generation == found.header.generation {
        report.torn = found.header.length.saturating_sub(header.length);
    }
    check_records(&open, &header, report.sums_known, &mut report, &mut |_, _| Ok(()), watch)?;
    Ok(report)
}

fn is_damage(e: &Error) -> bool {
    matches!(e, Error::CorruptStore { .. } | Error::CorruptRecord { .. } | Error::MissingDictionary { .. })
}

fn check_small_files(open: &Open, found: &Found, header: &Header, report: &mut Report) {
    if found.state == HeaderState::Ours && found.slot.is_none() {
        let path = open.dir.path().join(names::SYNC);
        report.add(Error::corrupt(path, "the sync slots", "none that is whole", "two copies of the header"));
    }
    if open.codec == Codec::ZstdDict && open.dictionary().is_none() && header.length > 0 {
        report.add(open.missing_dictionary("its records can't be read; put the file back"));
    }
    if let Err(e) = open.check_lengths(header) {
        report.add(e);
    }
}

/// Check every record and hand the sums of the sound ones to `visit`. With `known` their bytes must match the sums that are kept.
pub(crate) fn check_records(
    open: &Open,
    header: &Header,
    known: bool,
    report: &mut Report,
    visit: &mut dyn FnMut(u64, Sum) -> Result<()>,
    watch: Watch<'_>,
) -> Result<()> {
    let mut done = 0;
    let mut go_on = |done| {
        let go_on = watch(Progress { done, total: header.length });
        if go_on { Ok(()) } else { Err(Error::Interrupted { path: open.path() }) }
    };
    let survey = Survey { open, header, known };
    let chunks = survey.chunks(report, &mut || go_on(0))?;
    done += report.damaged.len() as u64;
    let damaged = report.damaged.clone();
    let walk = Walk::new(open);
    for group in chunks.groups() {
        let mut rows = survey.group(&group, &damaged, &mut || go_on(done))?;
        rows.sort_unstable_by_key(Row::place);
        let mut sound = Vec::with_capacity(rows.len());
        let mut rest = rows.as_slice();
        while !rest.is_empty() {
            let (batch, later) = rest.split_at(walk::batch(rest));
            for (row, outcome) in batch.iter().zip(walk.check(batch)?) {
                report.bytes += u64::from(row.entry.stored);
                match outcome {
                    Ok(sum) => sound.push((*row, sum)),
                    Err(e) => report.add_record(row.record, e),
                }
            }
            done += batch.len() as u64;
            go_on(done)?;
            rest = later;
        }
        // Only now: a row that is damaged can claim the bytes of many that are not.
        survey.check_overlaps(&mut sound, report);
        report.sound += sound.len() as u64;
        sound.iter().try_for_each(|&(ref row, sum)| visit(row.record, sum))?;
    }
    report.damaged.sort_unstable();
    Ok(())
}
