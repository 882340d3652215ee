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
/// Takes about 48 bytes for each of two million records, 64 MiB, and twice the longest record a thread.
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
    let dictionary_stated = open.dictionary().is_none() || found.slot.is_some_and(|slot| slot.dict_crc != 0);
    report.sums_known = header.has(FLAG_SUMS) && dictionary_stated;
    if header.generation == found.header.generation {
        report.torn = found.header.length.saturating_sub(header.length);
    }
    check_records(&open, &header, header.has(FLAG_SUMS), &mut report, &mut |_, _| Ok(()), watch)?;
    // What looked damaged may have been moved meanwhile, where no lock is in the way.
    open.check_unmoved()?;
    Ok(report)
}

fn is_damage(e: &Error) -> bool {
    matches!(e, Error::CorruptStore { .. } | Error::CorruptRecord { .. } | Error::MissingDictionary { .. })
}

fn check_small_files(open: &Open, found: &Found, header: &Header, report: &mut Report) {
    if found.state == HeaderState::Ours && found.slot.is_none() {
        let path = open.dir.path().join(names::SYNC);
        report.add(Error::corrupt(path, "the sync slots", "none that is whole", "two copies of the header"));
    } else if found.slot_damaged {
        let path = open.dir.path().join(names::SYNC);
        let found = "one that is not whole";
        report.add(Error::corrupt(path, "the sync slots", found, "two, or a crash while one was written"));
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
    let survey = Survey { open, header, known, length: rows_that_can_be(open, header, report)? };
    let buckets = survey.buckets(report, &mut || go_on(0))?;
    let unlikely = report.damaged.clone();
    done += unlikely.len() as u64;
    let walk = Walk::new(open);
    let mut last = None;
    for group in buckets.groups() {
        let mut rows = survey.group(&group, &unlikely, report, &mut || go_on(done))?;
        rows.sort_unstable_by_key(Row::place);
        let (mut at, mut kept) = (0, 0);
        while let Some(batch) = rows.get(at..).filter(|rest| !rest.is_empty()).map(walk::batch) {
            let outcomes = walk.check(rows.get(at..at + batch).unwrap_or_default())?;
            for outcome in outcomes {
                let Some(&row) = rows.get(at) else { continue };
                at += 1;
                report.bytes += u64::from(row.entry.stored);
                match outcome {
                    Ok(sum) => {
                        if let Some(slot) = rows.get_mut(kept) {
                            *slot = Row { sum: Some(sum), ..row };
                        }
                        kept += 1;
                    }
                    Err(e) => report.add_record(row.record, e),
                }
            }
            done += batch as u64;
            go_on(done)?;
        }
        rows.truncate(kept);
        // Only now: a row that is damaged can claim the bytes of many that are not.
        survey.check_overlaps(&mut rows, &mut last, report);
        report.sound += rows.len() as u64;
        rows.iter().try_for_each(|row| visit(row.record, row.sum.unwrap_or_default()))?;
    }
    report.damaged.sort_unstable();
    Ok(())
}

/// How many records the tables can have rows for. Missing rows are looked for one by one up to a length that is likely; a header that
/// states more is one problem.
fn rows_that_can_be(open: &Open, header: &Header, report: &mut Report) -> Result<u64> {
    const LISTED: u64 = if cfg!(any(test, fuzzing)) { 1 << 8 } else { 1 << 24 };

    let bound = open.loc.bound()?;
    if header.length.saturating_sub(bound) <= LISTED {
        return Ok(header.length);
    }
    let path = open.loc.path(bound);
    let expected = format!("{}, as the header says", header.length);
    report.add(Error::corrupt(path, "the rows of the table", bound, expected));
    Ok(bound)
}
