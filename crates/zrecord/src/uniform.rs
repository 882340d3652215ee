//! Stores whose records are all alike: where a record lies is arithmetic.
//!
//! The header's flag `UNIFORM` says that a raw store has records of one length, as they were appended: chunk after chunk, one behind the
//! other, each chunk but the last with as many. A writer keeps the flag as long as that holds, and takes it back with the first
//! record of another length and with all that moves records.

use crate::codec::Codec;
use crate::error::Result;
use crate::format::{Entry, FLAG_UNIFORM, Header, MAX_RECORD_LEN};
use crate::layout::lies_within;
use crate::open::Open;

/// How the records of such a store lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uniform {
    /// Bytes of a record, at least one.
    row: u32,
    /// Records of each chunk but the last; all of them where there is one chunk.
    per_chunk: u64,
}

impl Uniform {
    /// What the header says of a store whose records have `row` bytes. `None` if it can't be right: then the table is what counts.
    pub(crate) fn of(header: &Header, row: u32) -> Option<Self> {
        let last = u64::from(header.tail_offset);
        let in_last = last.checked_div(row.into())?;
        if !header.has(FLAG_UNIFORM)
            || header.codec != Codec::Raw
            || in_last * u64::from(row) != last
            || u64::from(row) > MAX_RECORD_LEN
        {
            return None;
        }
        let in_others = header.length.checked_sub(in_last)?;
        let Some(per_chunk) = in_others.checked_div(header.tail_chunk.into()) else {
            return (in_others == 0).then_some(Self { row, per_chunk: u64::MAX });
        };
        let exact = per_chunk * u64::from(header.tail_chunk) == in_others;
        let fits = per_chunk.checked_mul(row.into()).is_some_and(|bytes| bytes <= 1 << 32);
        (exact && fits && per_chunk >= in_last.max(1)).then_some(Self { row, per_chunk })
    }

    /// What is known of the records of an open store; it reads some table entries, once a handle.
    pub(crate) fn known(open: &Open, header: &Header) -> Result<Option<Self>> {
        if !header.has(FLAG_UNIFORM) || header.length == 0 {
            return Ok(None);
        }
        let Some(uniform) = Self::stated(open, header)? else { return Ok(None) };
        let agrees = open.agrees(|| uniform.agrees_with_table(open, header))?;
        Ok(agrees.then_some(uniform))
    }

    fn stated(open: &Open, header: &Header) -> Result<Option<Self>> {
        // All bytes lie in one chunk: their number tells.
        if header.tail_chunk == 0 {
            let row = u64::from(header.tail_offset).checked_div(header.length).unwrap_or_default();
            return Ok(u32::try_from(row).ok().and_then(|row| Self::of(header, row)));
        }
        Ok(Self::of(header, open.first_length()?))
    }

    /// A plain version 3 writer that deletes records, compacts, and appends as many of the same length leaves the very header that it
    /// found. It leaves a run of rows moved, too, which ends as many rows before the last one as it deleted: so it is looked for
    /// near the end, and farther away at all distances that are a power of two. A row that can't be right is damaged, and says nothing about the others.
    fn agrees_with_table(self, open: &Open, header: &Header) -> Result<bool> {
        let distances = (1..16).chain((4..u64::BITS).map(|bits| 1_u64 << bits));
        for record in distances.map_while(|distance| header.length.checked_sub(distance)).chain([0]) {
            let mut bytes = [0; Entry::SIZE];
            open.loc.read_range(record, &mut bytes)?;
            let entry = Entry::decode(&bytes);
            if lies_within(&entry, header) && entry != self.entry(record) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Bytes of a record, stored and as it is read.
    pub(crate) fn row(self) -> u32 {
        self.row
    }

    /// The first record of a chunk.
    pub(crate) fn first_of(self, chunk: u64) -> u64 {
        chunk.saturating_mul(self.per_chunk)
    }

    /// Where the records of a chunk end.
    pub(crate) fn end(self, chunk: u64, header: &Header) -> u64 {
        if chunk == u64::from(header.tail_chunk) {
            header.tail_offset.into()
        } else {
            self.per_chunk.saturating_mul(self.row.into())
        }
    }

    /// The table entry of a record, which is one of the store's.
    #[inline]
    pub(crate) fn entry(self, record: u64) -> Entry {
        let (chunk, place) = if self.per_chunk == u64::MAX {
            (0, record)
        } else {
            (record / self.per_chunk, record % self.per_chunk)
        };
        // Below 2^32: `of` has made sure for all records that there are.
        let offset = place.wrapping_mul(self.row.into());
        Entry { offset: low32(offset), stored: self.row, logical: self.row, chunk: low32(chunk) }
    }
}

/// What an append does to a store's being uniform: told of each record as it is placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Growing {
    holds: bool,
    /// 0 before the first record.
    row: u32,
    /// Not known before the first chunk is full.
    per_chunk: Option<u64>,
    /// The chunk that is appended to, and its records.
    chunk: u32,
    in_chunk: u64,
}

impl Growing {
    /// Of a store as it is; `before` is what is known of it.
    pub(crate) fn from(header: &Header, before: Option<Uniform>) -> Self {
        let is_new = (header.length, header.tail_chunk, header.tail_offset) == (0, 0, 0);
        let row = before.map_or(0, |uniform| uniform.row);
        Self {
            holds: header.codec == Codec::Raw && (is_new || before.is_some()),
            row,
            per_chunk: before.map(|uniform| uniform.per_chunk).filter(|&records| records != u64::MAX),
            chunk: header.tail_chunk,
            in_chunk: u64::from(header.tail_offset).checked_div(row.into()).unwrap_or_default(),
        }
    }

    /// The next record lies there.
    #[inline]
    pub(crate) fn add(&mut self, entry: &Entry) {
        if self.row == 0 {
            self.row = entry.logical;
        }
        if entry.chunk != self.chunk && self.in_chunk > 0 {
            self.holds &= *self.per_chunk.get_or_insert(self.in_chunk) == self.in_chunk;
            (self.chunk, self.in_chunk) = (self.chunk.wrapping_add(1), 0);
        }
        self.holds &= entry.chunk == self.chunk
            && u64::from(entry.offset) == self.in_chunk.wrapping_mul(self.row.into())
            && (entry.stored, entry.logical) == (self.row, self.row)
            && self.per_chunk.is_none_or(|records| self.in_chunk < records);
        self.in_chunk += 1;
    }

    /// The header's flag, as it is to be with the records that were added.
    pub(crate) fn flag(self, header: Header) -> Header {
        let with = Header { flags: header.flags | FLAG_UNIFORM, ..header };
        if self.holds && Uniform::of(&with, self.row).is_some() {
            with
        } else {
            Header { flags: header.flags & !FLAG_UNIFORM, ..header }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "what is cut off is zero for every record of the store")]
fn low32(wide: u64) -> u32 {
    wide as u32
}
