//! The methods of a store that only read.

use super::{Store, WriterSlot, stale};
use crate::error::{Error, Result};
use crate::format::{Header, Shape};
use crate::gather::{self, Destination};
use crate::open::{Found, Open};
use crate::recover::{self, Condition};
use crate::stats::{self, Stats};
use crate::storage::File;

impl Store {
    /// Record `idxs[i]` into `dst` at byte `offsets[i]`; the places must not overlap.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`], [`Error::InvalidArgument`] for places that overlap or pass the end, [`Error::CorruptRecord`],
    /// [`Error::CorruptStore`], I/O. On an error the content of `dst` is unspecified.
    pub fn gather(&self, idxs: &[u64], dst: &mut [u8], offsets: &[u64]) -> Result<()> {
        self.looking(|open| {
            let lengths = gather::lengths(open, idxs)?;
            gather::gather(open, idxs, Destination::places(dst, offsets, &lengths)?, self.options.verify)
        })
    }

    /// Record `idxs[i]` into row i of `dst`, whose rows are `dst.len() / idxs.len()` bytes long.
    ///
    /// # Errors
    /// As [`Store::gather`], and [`Error::LengthMismatch`] for a record that isn't exactly one row long.
    pub fn gather_rows(&self, idxs: &[u64], dst: &mut [u8]) -> Result<()> {
        self.looking(|open| {
            gather::gather(open, idxs, Destination::rows(dst, idxs.len())?, self.options.verify)
        })
    }

    /// Where each of the records begins when they are packed one after another; one more offset says where the last one ends.
    ///
    /// # Errors
    /// As [`Store::lengths`].
    pub fn packed_offsets(&self, idxs: &[u64]) -> Result<Vec<u64>> {
        self.looking(|open| gather::packed_offsets(open, idxs))
    }

    /// Logical (uncompressed) bytes of each record.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`], [`Error::CorruptStore`], I/O.
    pub fn lengths(&self, idxs: &[u64]) -> Result<Vec<u32>> {
        self.looking(|open| gather::lengths(open, idxs))
    }

    /// The shape entry of each record; plain ones where the store keeps no shapes.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`], [`Error::CorruptStore`], I/O.
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
    /// [`Error::CorruptStore`], I/O.
    pub fn stats(&self) -> Result<Stats> {
        self.reading(stats::stats)
    }

    /// See what other handles and processes appended; returns the number of records.
    ///
    /// # Errors
    /// [`Error::Stale`] if records were moved meanwhile, [`Error::CorruptStore`], I/O.
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
            open.publish(header);
            Ok(header.length)
        })
    }
}

/// The header as it is now. [`Error::Stale`] if records were moved since this handle looked.
pub(super) fn current_header(open: &Open, meta: &dyn File) -> Result<Header> {
    let before = open.header();
    let header = match recover::examine(open, &Found::read(&*open.dir, meta)?)? {
        Condition::Settled(header) | Condition::Tail { header, .. } => header,
        Condition::Unfinished(_) => return Err(Error::Unfinished { path: open.path() }),
    };
    if header.generation == before.generation { Ok(header) } else { Err(stale(open, &header, &before)) }
}
