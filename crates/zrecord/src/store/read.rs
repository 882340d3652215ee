//! The methods of a store that only read.

use std::ops::Range;

use super::{Store, WriterSlot, stale};
use crate::error::{Error, Result};
use crate::format::{FLAG_SHAPES, Header, Shape};
use crate::gather::{self, Destination};
use crate::open::Open;
use crate::options::Options;
use crate::settle;
use crate::stats::{self, Mapping, Stats};
use crate::storage::File;
use crate::view::{self, View};

impl Store {
    /// Record `idxs[i]` into `dst` at byte `offsets[i]`; the places must not overlap.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange), [`Error::InvalidArgument`](crate::Error::InvalidArgument) for places that overlap or pass the end, [`Error::CorruptRecord`](crate::Error::CorruptRecord),
    /// [`Error::CorruptStore`](crate::Error::CorruptStore), I/O. On an error the content of `dst` is unspecified.
    pub fn gather(&self, idxs: &[u64], dst: &mut [u8], offsets: &[u64]) -> Result<()> {
        self.looking(|open| {
            let lengths = gather::lengths(open, idxs)?;
            gather::gather(open, idxs, Destination::places(dst, offsets, &lengths)?)
        })
    }

    /// Record `idxs[i]` into row i of `dst`, whose rows are `dst.len() / idxs.len()` bytes long.
    ///
    /// # Errors
    /// As [`Store::gather`], and [`Error::LengthMismatch`](crate::Error::LengthMismatch) for a record that isn't exactly one row long.
    pub fn gather_rows(&self, idxs: &[u64], dst: &mut [u8]) -> Result<()> {
        self.looking(|open| gather::gather(open, idxs, Destination::rows(dst, idxs.len())?))
    }

    /// The records of `range` as memory, without a copy. They are checked now, all of them, as this handle checks what it reads.
    ///
    /// As long as the view lives nobody can delete from the store or compact it, this handle neither.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange); [`Error::InvalidArgument`](crate::Error::InvalidArgument) if there is none: for no records, where the store isn't
    /// raw, has records of several lengths or was deleted from, where the records lie in several chunks, or where no maps are used;
    /// [`Error::CorruptRecord`](crate::Error::CorruptRecord), I/O; as [`Store::open`](crate::Store::open).
    pub fn view(&self, range: Range<u64>) -> Result<View> {
        self.reading(|open| {
            let options = Options { read_only: true, codec: None, ..self.options.clone() };
            let reader = Self::open_in(self.dir.clone(), options)?;
            let (found, expected) = (reader.generation()?, open.header().generation);
            if found != expected {
                return Err(Error::Stale { path: open.path(), found, expected });
            }
            view::view(open, range, reader)
        })
    }

    /// Where each of the records begins when they are packed one after another; one more offset says where the last one ends.
    ///
    /// # Errors
    /// As [`Store::lengths`].
    pub fn packed_offsets(&self, idxs: &[u64]) -> Result<Vec<u64>> {
        self.looking(|open| gather::packed_offsets(open, idxs))
    }

    /// Record `idxs[i]` into `dst` from byte `offsets[i]` to `offsets[i + 1]`, and the shape entries if the store keeps shapes; bytes and
    /// shapes are those of one moment, whatever other threads do to the store meanwhile.
    ///
    /// # Errors
    /// As [`Store::gather`], and [`Error::LengthMismatch`](crate::Error::LengthMismatch) if a record has another length than the offsets say: they are of another
    /// moment, so ask for them again.
    pub fn gather_packed(&self, idxs: &[u64], offsets: &[u64], dst: &mut [u8]) -> Result<Option<Vec<Shape>>> {
        self.looking(|open| {
            gather::gather(open, idxs, Destination::packed(dst, offsets, idxs.len())?)?;
            if open.header().has(FLAG_SHAPES) { gather::shapes(open, idxs).map(Some) } else { Ok(None) }
        })
    }

    /// Record `idxs[i]` into `places[i]`, and the shape entries if the store keeps shapes; all of one moment, as in
    /// [`Store::gather_packed`].
    ///
    /// # Errors
    /// As [`Store::gather`], and [`Error::LengthMismatch`](crate::Error::LengthMismatch) for a record that isn't exactly as long as its place.
    pub fn gather_places(&self, idxs: &[u64], places: Vec<&mut [u8]>) -> Result<Option<Vec<Shape>>> {
        if idxs.len() != places.len() {
            let (found, expected) = (places.len(), idxs.len());
            return Err(Error::InvalidArgument(format!("got {found} places for {expected} indices")));
        }
        self.looking(|open| {
            gather::gather(open, idxs, Destination::Places(places))?;
            if open.header().has(FLAG_SHAPES) { gather::shapes(open, idxs).map(Some) } else { Ok(None) }
        })
    }

    /// Logical (uncompressed) bytes of each record.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange), [`Error::CorruptStore`](crate::Error::CorruptStore), I/O.
    pub fn lengths(&self, idxs: &[u64]) -> Result<Vec<u32>> {
        self.looking(|open| gather::lengths(open, idxs))
    }

    /// The lengths of [`Store::lengths`] and the entries of [`Store::shapes`], both of one moment; no entries where the store keeps no shapes.
    /// No record is read.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange), [`Error::CorruptStore`](crate::Error::CorruptStore), I/O.
    pub fn forms(&self, idxs: &[u64]) -> Result<(Vec<u32>, Option<Vec<Shape>>)> {
        self.looking(|open| {
            let kept = open.header().has(FLAG_SHAPES);
            let shapes = if kept { Some(gather::shapes(open, idxs)?) } else { None };
            Ok((gather::lengths(open, idxs)?, shapes))
        })
    }

    /// The shape entry of each record; plain ones where the store keeps no shapes.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange), [`Error::CorruptStore`](crate::Error::CorruptStore), I/O.
    pub fn shapes(&self, idxs: &[u64]) -> Result<Vec<Shape>> {
        self.looking(|open| gather::shapes(open, idxs))
    }

    /// Run what reads records. If they were moved meanwhile, that is the error, and what was read is not returned.
    fn looking<T>(&self, work: impl FnOnce(&Open) -> Result<T>) -> Result<T> {
        self.reading(|open| {
            let outcome = work(open);
            open.check_unmoved()?;
            outcome
        })
    }

    /// Space in use.
    ///
    /// # Errors
    /// [`Error::CorruptStore`](crate::Error::CorruptStore), I/O.
    pub fn stats(&self) -> Result<Stats> {
        self.reading(stats::stats)
    }

    /// How much of the store's files this handle has mapped, and how much of that is resident. It takes some ten milliseconds where tens of
    /// GiB are.
    ///
    /// # Errors
    /// I/O.
    pub fn mapping(&self) -> Result<Mapping> {
        self.reading(stats::mapping)
    }

    /// Unmap the store's files: they no longer count in the process's RSS. They stay in the page cache, and whoever reads next maps them again;
    /// reads that are under way, and views, keep what they have.
    ///
    /// # Errors
    /// Only those of every method.
    pub fn unmap(&self) -> Result<()> {
        self.reading(|open| {
            stats::unmap(open);
            Ok(())
        })
    }

    /// See what other handles and processes appended; returns the number of records.
    ///
    /// # Errors
    /// [`Error::Stale`](crate::Error::Stale) if records were moved meanwhile, [`Error::CorruptStore`](crate::Error::CorruptStore), I/O.
    pub fn refresh(&self) -> Result<u64> {
        // The writer's own header is the newest there is; nobody else appends.
        if let WriterSlot::Active(writer) = &*self.writer_guard()?
            && writer.belongs_here()
        {
            return Ok(writer.header.length);
        }
        self.reading(|open| {
            let header = current_header(open, &*open.meta)?;
            open.check_lengths(&header)?;
            open.follow_dictionary()?;
            open.publish(header);
            Ok(header.length)
        })
    }
}

/// The header as it is now. [`Error::Stale`](crate::Error::Stale) if records were moved since this handle looked.
pub(super) fn current_header(open: &Open, meta: &dyn File) -> Result<Header> {
    let before = open.header();
    let header = settle::look_again(open, meta)?;
    if header.generation == before.generation { Ok(header) } else { Err(stale(open, &header, &before)) }
}
