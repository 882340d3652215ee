//! What a changed store may answer: the law for a store that was whole, and what follows from it for one change.

use super::super::Shape;
use super::{Change, Files};

/// A record and its shape.
pub(crate) type Row = (Vec<u8>, Shape);

const ENTRY: usize = 16;
/// Header bytes that a plain writer knows.
const PLAIN_HEADER: usize = 22;

/// What one record may be.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    /// The truth; two rows where a change was under way.
    pub(crate) rows: Vec<Row>,
    /// An error is an answer too.
    pub(crate) may_fail: bool,
    /// Nothing could tell: there are no sums.
    pub(crate) free: bool,
}

impl Slot {
    pub(crate) fn of(row: Row) -> Self {
        Self { rows: vec![row], may_fail: false, free: false }
    }

    pub(crate) fn allows(&self, row: &Row) -> bool {
        self.free || self.rows.contains(row)
    }

    /// It was read, and stays what it is.
    pub(crate) fn settle(&mut self, index: u64, row: Row) {
        assert!(self.allows(&row), "record {index} is {row:?} instead of {:?}", self.rows);
        *self = Self { free: self.free, may_fail: self.free, rows: vec![row] };
    }
}

/// A store before it was changed.
#[derive(Clone, Debug)]
pub(crate) struct Law {
    /// The content; before and after where a change is under way.
    pub(crate) states: Vec<Vec<Row>>,
    /// Records that were synced.
    pub(crate) durable: usize,
    /// Written by a plain version 3 writer: no sums, no copy of the header.
    pub(crate) plain: bool,
    /// Entries of a table segment.
    pub(crate) segment: usize,
}

/// What follows for one change.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(crate) slots: Vec<Slot>,
    /// How many records may be found.
    pub(crate) lengths: Vec<usize>,
    pub(crate) may_refuse: bool,
    /// A reader may say that a change must be finished first.
    pub(crate) unfinished: bool,
    /// What can look like a plain writer's delete: fewer records, without sums.
    pub(crate) header_damaged: bool,
    /// A shape that the store can take.
    pub(crate) shape: Shape,
}

impl Law {
    /// For a store that was closed.
    pub(crate) fn settled(rows: Vec<Row>, segment: usize) -> Self {
        Self { durable: rows.len(), states: vec![rows], plain: false, segment }
    }

    /// Whether a change is under way.
    pub(crate) fn is_pending(&self) -> bool {
        self.states.len() > 1
    }

    pub(crate) fn expected(&self, files: &Files, name: &str, change: Change) -> Expected {
        let longest = self.states.iter().map(Vec::len).max().unwrap_or(0);
        let header_damaged = self.damages_header(name, change);
        // Which record will lie where is not known yet, so that damage to a table or a chunk may be felt by any of them.
        let unharmed = ["lock.zr", "sync.zr", "schema.msgpack"].contains(&name)
            || (name == "meta.zr" && !header_damaged);
        let all = (self.is_pending() && !unharmed)
            || (self.plain && header_damaged)
            || (name == "dict.zr" && change == Change::Remove);
        let slot = |i: usize| {
            let rows = self.states.iter().filter_map(|rows| rows.get(i).cloned()).collect();
            let may_fail = all || self.affects(files, name, change, i);
            Slot { rows, may_fail, free: self.plain && may_fail }
        };
        let slots: Vec<Slot> = (0..longest).map(slot).collect();
        let mut lengths: Vec<usize> = self.states.iter().map(Vec::len).collect();
        // Where nothing was synced yet, the store ends before the first damaged record.
        lengths.extend((self.durable..longest).find(|&i| slots[i].may_fail));
        let shaped = self.states.iter().flatten().any(|(_, shape)| !shape.is_plain());
        Expected {
            slots,
            lengths,
            may_refuse: header_damaged || self.shortens(files, name, change),
            unfinished: self.is_pending(),
            header_damaged,
            shape: if shaped { Shape([3, 2, 4, 0, 0, 0, 0, 0]) } else { Shape::default() },
        }
    }

    /// Of the header's own part there is a whole copy, if the store was settled.
    fn damages_header(&self, name: &str, change: Change) -> bool {
        let copied = matches!(change, Change::Byte { at, .. } if at >= PLAIN_HEADER);
        let settled = !self.plain && self.states[0].len() == self.durable;
        name == "meta.zr" && !matches!(change, Change::Extend(_)) && !(copied && settled)
    }

    /// Whether the store may not be as long as its header says, or not the one it was written as.
    fn shortens(&self, files: &Files, name: &str, change: Change) -> bool {
        if name == "dict.zr" {
            return change != Change::Remove;
        }
        let Some((number, extension)) = numbered(name) else { return false };
        let chunk =
            |i: usize| u32_at(&files[&format!("{}.loc", i / self.segment)][i % self.segment * ENTRY..], 12);
        let last = match extension {
            "chunk" => (0..self.durable).map(chunk).max(),
            _ => self.durable.checked_sub(1).map(|i| i / self.segment),
        };
        last.is_none_or(|last| number >= last) && matches!(change, Change::Cut(_) | Change::Remove)
    }

    /// Whether a byte of record `i`, or of its rows, is changed.
    fn affects(&self, files: &Files, name: &str, change: Change, i: usize) -> bool {
        let Some((number, extension)) = numbered(name) else { return false };
        let changed = change.range(files[name].len());
        let row = |width: usize| (i / self.segment, i % self.segment * width..(i % self.segment + 1) * width);
        let (file, bytes) = match extension {
            "loc" => row(ENTRY),
            "sum" => row(4),
            "shape" => row(32),
            _ => {
                let (segment, at) = row(ENTRY);
                let entry = &files[&format!("{segment}.loc")][at];
                let start = u32_at(entry, 0);
                (u32_at(entry, 12), start..start + u32_at(entry, 4))
            }
        };
        file == number && bytes.start.max(changed.start) < bytes.end.min(changed.end)
    }
}

impl Expected {
    pub(crate) fn check_length(&self, found: u64, sums_known: bool) {
        let found = usize::try_from(found).unwrap();
        // Of no record, all sums are known.
        let shorter = self.header_damaged && found < self.slots.len() && (!sums_known || found == 0);
        assert!(self.lengths.contains(&found) || shorter, "{found} records, expected {:?}", self.lengths);
    }
}

fn numbered(name: &str) -> Option<(usize, &str)> {
    let (number, extension) = name.split_once('.')?;
    Some((number.parse().ok()?, extension))
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}
