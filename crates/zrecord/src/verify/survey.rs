//! The tables, row by row, and in groups of chunks: what can be said about records without looking at their bytes.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

use super::Report;
use crate::error::{Error, Result};
use crate::format::{Entry, FLAG_SHAPES, Header, Shape, Sum};
use crate::layout::{corrupt, lies_within, misplaced, overlap};
use crate::open::Open;
use crate::storage::Column;

/// Rows of one read.
const PIECE: u64 = if cfg!(any(test, fuzzing)) { 3 } else { 1 << 16 };
/// Bytes of a chunk whose rows are in one group at least, as a power of two.
const BUCKET_BITS: u32 = if cfg!(any(test, fuzzing)) { 5 } else { 24 };
/// Rows of a group, more only if they all begin in one bucket: 48 bytes each.
const GROUP_ROWS: u64 = if cfg!(any(test, fuzzing)) { 5 } else { 1 << 21 };

/// A row that can be right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) record: u64,
    pub(super) entry: Entry,
    /// What its bytes must sum up to, where that is known; once they were read, what they do sum up to.
    pub(super) sum: Option<Sum>,
    /// What its shape adds to that.
    pub(super) shape: Sum,
}

impl Row {
    /// The order in which bytes lie; records without bytes come first.
    pub(super) fn place(&self) -> (u32, u32, u32) {
        if self.entry.stored == 0 {
            (0, 0, 0)
        } else {
            (self.entry.chunk, self.entry.offset, self.entry.stored)
        }
    }

    /// Where a row is counted. Buckets are in the order of the bytes; a record without bytes names a chunk that need not exist.
    fn bucket(&self) -> u64 {
        let (chunk, offset, _) = self.place();
        u64::from(chunk) << (u32::BITS - BUCKET_BITS) | u64::from(offset >> BUCKET_BITS)
    }

    /// The sum of these bytes as this row's.
    pub(super) fn sum_of(&self, stored: &[u8]) -> Sum {
        Sum(Sum::of(stored, &self.entry).0 ^ self.shape.0)
    }
}

/// Reads the tables of a store whose header is `header`; sums count as `known` or not.
pub(super) struct Survey<'a> {
    pub(super) open: &'a Open,
    pub(super) header: &'a Header,
    pub(super) known: bool,
    /// Records that have a row at all: a header can state any number.
    pub(super) length: u64,
}

/// How many rows each bucket has, and between which records they are.
#[derive(Debug, Default)]
pub(super) struct Buckets(BTreeMap<u64, (u64, Range<u64>)>);

/// Neighbouring buckets whose rows are looked at together.
#[derive(Debug)]
pub(super) struct Group {
    buckets: RangeInclusive<u64>,
    records: Range<u64>,
}

impl Buckets {
    fn count(&mut self, row: &Row) {
        let empty = (0, row.record..row.record);
        let (count, records) = self.0.entry(row.bucket()).or_insert(empty);
        *count += 1;
        records.end = row.record + 1;
    }

    pub(super) fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<(u64, Group)> = Vec::new();
        for (&bucket, (count, records)) in &self.0 {
            match groups.last_mut() {
                Some((rows, group)) if *rows + count <= GROUP_ROWS => {
                    *rows += count;
                    group.buckets = *group.buckets.start()..=bucket;
                    let (a, b) = (&group.records, records);
                    group.records = a.start.min(b.start)..a.end.max(b.end);
                }
                _ => groups.push((*count, Group { buckets: bucket..=bucket, records: records.clone() })),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }
}

impl Survey<'_> {
    /// Look at every row once: what can't be right goes to the report, the others are counted.
    pub(super) fn buckets(
        &self,
        report: &mut Report,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Buckets> {
        let mut buckets = Buckets::default();
        self.rows(0..self.length, go_on, &mut |record, row| match row {
            Ok(row) => buckets.count(&row),
            Err(e) => report.add_record(record, e),
        })?;
        Ok(buckets)
    }

    /// The rows of a group that can be right. `known` are the records that could not be at the first look.
    pub(super) fn group(
        &self,
        group: &Group,
        known: &[u64],
        report: &mut Report,
        go_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.rows(group.records.clone(), go_on, &mut |record, row| match row {
            Ok(row) if group.buckets.contains(&row.bucket()) => rows.push(row),
            Err(e) if known.binary_search(&record).is_err() && report.damaged.last() != Some(&record) => {
                report.add_record(record, e);
            }
            _ => {}
        })?;
        Ok(rows)
    }

    /// Take out rows, which are in the order of their bytes, until no two claim the same ones: of two, the one that ends later, which
    /// takes out as few as can be. `last` is the last row of the groups before.
    pub(super) fn check_overlaps(&self, rows: &mut Vec<Row>, last: &mut Option<Row>, report: &mut Report) {
        let mut kept = 0;
        for at in 0..rows.len() {
            let Some(&row) = rows.get(at) else { continue };
            let mut place = kept;
            if let Some(before) = last.filter(|_| row.entry.stored > 0)
                && let Some(e) = overlap(self.open, (before.record, &before.entry), (row.record, &row.entry))
            {
                if kept == 0 || row.entry.end() >= before.entry.end() {
                    report.add_record(row.record, e);
                    continue;
                }
                report.add_record(before.record, self.claims_too_much(&before, &row));
                place = kept - 1;
            }
            if let Some(slot) = rows.get_mut(place) {
                *slot = row;
            }
            kept = place + 1;
            if row.entry.stored > 0 {
                *last = Some(row);
            }
        }
        rows.truncate(kept);
    }

    fn claims_too_much(&self, row: &Row, next: &Row) -> Error {
        let found = format!("an end at {}", row.entry.end());
        let expected = format!("at most {}, where record {} begins", next.entry.offset, next.record);
        corrupt(self.open, row.record, &row.entry, "it overlaps another record", found, expected)
    }

    /// Pass each row of `records` to `visit`, in order, or what is wrong with it.
    fn rows(
        &self,
        records: Range<u64>,
        go_on: &mut dyn FnMut() -> Result<()>,
        visit: &mut dyn FnMut(u64, Result<Row>),
    ) -> Result<()> {
        let mut first = records.start;
        while first < records.end {
            let end = records.end.min(first + PIECE).min(self.open.loc.segment_end(first));
            self.piece(first..end, visit);
            go_on()?;
            first = end;
        }
        Ok(())
    }

    /// The rows of a piece of a segment. A sector that can't be read costs only the rows on it.
    fn piece(&self, records: Range<u64>, visit: &mut dyn FnMut(u64, Result<Row>)) {
        let count = records.end - records.start;
        match self.read(records.clone()) {
            Ok(rows) => records.zip(rows).for_each(|(record, row)| visit(record, row)),
            // Once more, as for bytes: what fails once need not be damage, and damage can be cut out.
            Err(_) if count <= 1 => match self.read(records.clone()) {
                Ok(rows) => records.zip(rows).for_each(|(record, row)| visit(record, row)),
                Err(e) => visit(records.start, Err(e)),
            },
            Err(_) => {
                let middle = records.start + count / 2;
                self.piece(records.start..middle, visit);
                self.piece(middle..records.end, visit);
            }
        }
    }

    fn read(&self, records: Range<u64>) -> Result<Vec<Result<Row>>> {
        let entries = cells::<{ Entry::SIZE }>(&self.open.loc, &records)?;
        let sums = if self.known { cells::<{ Sum::SIZE }>(&self.open.sum, &records)? } else { Vec::new() };
        let with_shapes = self.header.has(FLAG_SHAPES);
        let shapes =
            if with_shapes { cells::<{ Shape::SIZE }>(&self.open.shape, &records)? } else { Vec::new() };
        let row = |i: usize, record: u64| {
            let entry = Entry::decode(entries.get(i).ok_or_else(|| missing(&self.open.loc, record))?);
            let shape = match shapes.get(i) {
                Some(shape) => Shape::decode(shape),
                None if with_shapes => return Err(missing(&self.open.shape, record)),
                None => Shape::default(),
            };
            let sum = match sums.get(i) {
                Some(sum) => Some(Sum::decode(sum)),
                None if self.known => return Err(missing(&self.open.sum, record)),
                None => None,
            };
            self.checked(Row { record, entry, sum, shape: Sum::default().with_shape(&shape) }, &shape)
        };
        Ok(records.enumerate().map(|(i, record)| row(i, record)).collect())
    }

    fn checked(&self, row: Row, shape: &Shape) -> Result<Row> {
        if !lies_within(&row.entry, self.header) {
            return Err(misplaced(self.open, self.header, row.record, &row.entry));
        }
        if !shape.fits(row.entry.logical) {
            let found = format!("{:?}", shape.0);
            let expected = format!("rank + 1 and dimensions of {} bytes", row.entry.logical);
            return Err(corrupt(self.open, row.record, &row.entry, "its shape", found, expected));
        }
        Ok(row)
    }
}

/// The rows of a column that exist; fewer than asked for if the file ends before.
fn cells<const N: usize>(column: &Column, records: &Range<u64>) -> Result<Vec<[u8; N]>> {
    let count = column.existing(records)?;
    let mut cells = vec![[0; N]; usize::try_from(count).unwrap_or_default()];
    column.read_range(records.start, cells.as_flattened_mut())?;
    Ok(cells)
}

fn missing(column: &Column, record: u64) -> Error {
    let expected = format!("a row for record {record}");
    Error::corrupt(column.path(record), "the length of a table", "fewer rows", expected)
}
