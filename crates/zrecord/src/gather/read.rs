//! From a chunk to its place: through the map where there is one, by positional read otherwise; checked, then decoded.

use std::io;

use super::checked::CheckedView;
use super::locate::Located;
use crate::codec::{Codec, CodecError, Decoder};
use crate::copy::{Stores, copy};
use crate::error::{Error, Result};
use crate::format::Sum;
use crate::layout::corrupt;
use crate::open::Open;
use crate::options::Verify;
use crate::prefetch::{LEAD, LINE, prefetch};
use crate::recover::read_stored;
use crate::storage::{Entered, Map};

/// Reads the records of one block. Each chunk is asked for its length once, when it is entered.
pub(super) struct Reader<'a> {
    open: &'a Open,
    decoder: Decoder,
    chunks: Entered<Map>,
    /// Stored bytes of one compressed record, where there is no map.
    staging: Vec<u8>,
    /// Where checks are noted, if they are.
    checked: Option<CheckedView<'a>>,
    stores: Stores,
}

impl<'a> Reader<'a> {
    pub(super) fn new(open: &'a Open, stores: Stores) -> Result<Self> {
        let checked = (open.verify == Verify::Once).then(|| open.checked.view());
        Ok(Self {
            open,
            decoder: open.decoder()?,
            chunks: Entered::new(),
            staging: Vec::new(),
            checked,
            stores,
        })
    }

    /// Ask for the first bytes of a record that will be read soon, if its chunk is at hand.
    #[inline]
    pub(super) fn prefetch(&self, found: &Located) {
        if let Some(map) = self.chunks.last(found.entry.chunk.into()) {
            prefetch(map, found.entry.offset as usize, 1);
        }
    }

    /// Ask for the rest of the beginning of the record that is read next; summing up asks for what follows.
    #[inline]
    pub(super) fn prefetch_lead(&self, found: &Located) {
        if found.entry.stored as usize > LINE
            && found.sum.is_some()
            && let Some(map) = self.chunks.last(found.entry.chunk.into())
        {
            let (start, length) = (found.entry.offset as usize, LEAD.min(found.entry.stored as usize));
            prefetch(map, start + LINE, length - LINE);
        }
    }

    /// One record into its place, which must be exactly as long as the record.
    #[inline]
    pub(super) fn read(&mut self, found: &Located, place: &mut [u8]) -> Result<()> {
        self.fill(found, place)?;
        if let Some(checked) = &mut self.checked
            && found.sum.is_some()
        {
            checked.insert(found.record);
        }
        Ok(())
    }

    fn fill(&mut self, found: &Located, place: &mut [u8]) -> Result<()> {
        if found.entry.logical as usize != place.len() {
            return Err(self.misfit(found, place.len() as u64));
        }
        if found.entry.stored == 0 {
            return self.check(found, &[]);
        }
        if !self.enter(found)? {
            return self.read_without_map(found, place);
        }
        let start = found.entry.offset as usize;
        let end = start + found.entry.stored as usize;
        let map = self.chunks.last(found.entry.chunk.into());
        let stored = map.and_then(|map| map.get(start..end)).ok_or_else(|| self.short(found))?;
        if self.open.codec == Codec::Raw {
            return self.copy(found, stored, place);
        }
        self.check(found, stored)?;
        self.decode(found, stored, place)
    }

    /// Copy, and sum up in the same pass: memory is waited for once.
    #[inline]
    fn copy(&self, found: &Located, stored: &[u8], place: &mut [u8]) -> Result<()> {
        let Some(expected) = found.sum else {
            copy(stored, place, self.stores);
            return Ok(());
        };
        self.compare(found, Sum::of_copy(stored, place, &found.entry, self.stores), expected)
    }

    fn decode(&self, found: &Located, stored: &[u8], place: &mut [u8]) -> Result<()> {
        self.decoder.decode_into(stored, place).map_err(|e| self.undecodable(found, &e))
    }

    /// Make sure that the record's chunk is mapped; `false` where maps are not offered.
    #[inline]
    fn enter(&mut self, found: &Located) -> Result<bool> {
        match self.chunks.last(found.entry.chunk.into()) {
            Some(map) if map.len() as u64 >= found.entry.end() => Ok(true),
            _ => self.enter_chunk(found),
        }
    }

    #[cold]
    fn enter_chunk(&mut self, found: &Located) -> Result<bool> {
        let (chunk, end) = (u64::from(found.entry.chunk), found.entry.end());
        if self.chunks.find(chunk).is_some_and(|map| map.len() as u64 >= end) {
            return Ok(true);
        }
        let map = self.open.chunks.get(chunk)?.map(end).map_err(|e| self.open.chunks.fail(chunk, e))?;
        let is_mapped = map.is_some();
        if let Some(map) = map {
            self.chunks.put(chunk, map);
        }
        Ok(is_mapped)
    }

    fn read_without_map(&mut self, found: &Located, place: &mut [u8]) -> Result<()> {
        let chunk = u64::from(found.entry.chunk);
        let file = self.open.chunks.get(chunk)?;
        let read = |buffer: &mut [u8]| {
            let read = file.file().read_at(buffer, found.entry.offset.into());
            read.map_err(|e| self.open.chunks.fail(chunk, e))
        };
        if self.open.codec == Codec::Raw {
            read(place)?;
            return self.check(found, place);
        }
        // The chunk is that long, so a damaged length can't ask for more memory than there are bytes on disk.
        if file.file().len().map_err(|e| self.open.chunks.fail(chunk, e))? < found.entry.end() {
            return Err(self.short(found));
        }
        let mut staging = std::mem::take(&mut self.staging);
        staging.resize(found.entry.stored as usize, 0);
        read(&mut staging)?;
        self.check(found, &staging)?;
        self.decode(found, &staging, place)?;
        self.staging = staging;
        Ok(())
    }

    #[inline]
    fn check(&self, found: &Located, stored: &[u8]) -> Result<()> {
        match found.sum {
            Some(expected) => self.compare(found, Sum::of(stored, &found.entry), expected),
            None => Ok(()),
        }
    }

    #[inline]
    fn compare(&self, found: &Located, sum: Sum, expected: Sum) -> Result<()> {
        if sum == expected { Ok(()) } else { Err(self.mismatch(found, sum, expected)) }
    }

    fn damaged(&self, found: &Located, what: &'static str, is: String, expected: String) -> Error {
        corrupt(self.open, found.record, &found.entry, what, is, expected)
    }

    /// A record of another length than its place: damaged, if its checksum says so.
    #[cold]
    fn misfit(&self, found: &Located, expected: u64) -> Error {
        match read_stored(self.open, &found.entry).and_then(|stored| self.check(found, &stored)) {
            Ok(()) => {
                Error::LengthMismatch { record: found.record, found: found.entry.logical.into(), expected }
            }
            Err(damage) => damage,
        }
    }

    #[cold]
    fn mismatch(&self, found: &Located, is: Sum, expected: Sum) -> Error {
        self.damaged(found, "its checksum", format!("{:#010x}", is.0), format!("{:#010x}", expected.0))
    }

    #[cold]
    fn undecodable(&self, found: &Located, e: &CodecError) -> Error {
        let expected = format!("{} bytes", found.entry.logical);
        self.damaged(found, "it does not decode", e.to_string(), expected)
    }

    #[cold]
    fn short(&self, found: &Located) -> Error {
        self.open.chunks.fail(found.entry.chunk.into(), io::ErrorKind::UnexpectedEof.into())
    }
}
