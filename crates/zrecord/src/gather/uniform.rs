//! Rows of a store whose records are all alike: no table is read, and what is small is asked for well ahead.

use std::sync::Arc;

use super::checked::CheckedView;
use super::scalars::Scalars;
use crate::copy::{Stores, copy};
use crate::format::{Entry, Header, Sum};
use crate::open::Open;
use crate::options::Verify;
use crate::prefetch::{LEAD, prefetch_once};
use crate::storage::{ColumnView, Entered, Map, Mapped};
use crate::uniform::Uniform;

/// Bytes that are on their way from memory at once, at most so many records of them.
const AHEAD_BYTES: usize = 4 << 10;
const AHEAD_RECORDS: usize = 32;

/// Why a block must be read by the table after all: a chunk is too short, can't be read, or holds other bytes than those that were summed
/// up. The table then says what is wrong, and where.
#[derive(Debug)]
pub(super) struct NotUniform;

/// A chunk that was entered.
enum Chunk {
    Map(Map),
    File(Arc<Mapped>),
}

/// Reads the rows of one block.
pub(super) struct RowReader<'a> {
    open: &'a Open,
    header: &'a Header,
    uniform: Uniform,
    chunks: Entered<Chunk>,
    sums: Option<ColumnView<'a>>,
    checked: Option<CheckedView<'a>>,
    stores: Stores,
}

impl<'a> RowReader<'a> {
    pub(super) fn new(open: &'a Open, header: &'a Header, uniform: Uniform, stores: Stores) -> Self {
        let verified = open.verify.applies_to(header);
        Self {
            open,
            header,
            uniform,
            chunks: Entered::new(),
            sums: verified.then(|| open.sum.view(header.length)),
            checked: (verified && open.verify == Verify::Once).then(|| open.checked.view()),
            stores,
        }
    }

    /// The records `idxs` into `rows`, one behind the other.
    pub(super) fn read(&mut self, idxs: &[u64], rows: &mut [u8]) -> Result<(), NotUniform> {
        let row = self.uniform.row() as usize;
        let Some(&first) = idxs.first() else { return Ok(()) };
        // What is asked for ahead must be open.
        self.enter(&self.uniform.entry(first))?;
        if let Some(sums) = &mut self.sums {
            sums.get::<{ Sum::SIZE }>(first).map_err(|_| NotUniform)?;
        }
        if let Some(scalars) = self.scalars() {
            return scalars.read(idxs, rows, self.uniform.row());
        }
        let ahead = (AHEAD_BYTES / row).clamp(1, AHEAD_RECORDS);
        idxs.iter().take(ahead).for_each(|&record| self.prefetch(record));
        let mut coming = idxs.iter().skip(ahead);
        for (&record, place) in idxs.iter().zip(rows.chunks_exact_mut(row)) {
            if let Some(&later) = coming.next() {
                self.prefetch(later);
            }
            self.read_row(record, place)?;
        }
        Ok(())
    }

    /// If the records are that small, and all of them and their sums are at hand.
    fn scalars(&self) -> Option<Scalars<'_>> {
        if !Scalars::can_be(self.uniform.row()) || self.header.tail_chunk > 0 || self.checked.is_some() {
            return None;
        }
        let sums = match &self.sums {
            Some(sums) => Some(sums.whole()?),
            None => None,
        };
        match self.chunks.last(0)? {
            Chunk::Map(records) => Some(Scalars { records, sums }),
            Chunk::File(_) => None,
        }
    }

    #[inline]
    fn prefetch(&self, record: u64) {
        let entry = self.uniform.entry(record);
        if let Some(Chunk::Map(map)) = self.chunks.last(entry.chunk.into()) {
            prefetch_once(map, entry.offset as usize, LEAD.min(entry.stored as usize));
        }
        if let Some(sums) = &self.sums {
            sums.prefetch(record);
        }
    }

    #[inline]
    fn read_row(&mut self, record: u64, place: &mut [u8]) -> Result<(), NotUniform> {
        let entry = self.uniform.entry(record);
        let chunk = u64::from(entry.chunk);
        if self.chunks.last(chunk).is_none() {
            self.enter(&entry)?;
        }
        let expected = match &mut self.sums {
            Some(_) if self.checked.as_mut().is_some_and(|checked| checked.contains(record)) => None,
            Some(sums) => Some(Sum::decode(&sums.get(record).map_err(|_| NotUniform)?)),
            None => None,
        };
        let found = match self.chunks.last(chunk).ok_or(NotUniform)? {
            Chunk::Map(map) => {
                let start = entry.offset as usize;
                let stored = map.get(start..start + entry.stored as usize).ok_or(NotUniform)?;
                if expected.is_none() {
                    copy(stored, place, self.stores);
                    return Ok(());
                }
                Sum::of_copy(stored, place, &entry, self.stores)
            }
            Chunk::File(file) => {
                file.file().read_at(place, entry.offset.into()).map_err(|_| NotUniform)?;
                if expected.is_none() {
                    return Ok(());
                }
                Sum::of(place, &entry)
            }
        };
        if expected != Some(found) {
            return Err(NotUniform);
        }
        if let Some(checked) = &mut self.checked {
            checked.insert(record);
        }
        Ok(())
    }

    /// Map the chunk of a record, as far as its records reach, or open it where maps are not offered.
    #[cold]
    fn enter(&mut self, entry: &Entry) -> Result<(), NotUniform> {
        let chunk = u64::from(entry.chunk);
        if self.chunks.find(chunk).is_some() {
            return Ok(());
        }
        let file = self.open.chunks.get(chunk).map_err(|_| NotUniform)?;
        let map = file.map(self.uniform.end(chunk, self.header)).map_err(|_| NotUniform)?;
        self.chunks.put(chunk, map.map_or(Chunk::File(file), Chunk::Map));
        Ok(())
    }
}
