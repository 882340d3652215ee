//! The methods of a store that write, and how they come by the writer.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::{Store, WriterSlot, stale};
use crate::append::{self, Records, Writer};
use crate::checksum::crc32c;
use crate::codec::{Codec, Dictionary};
use crate::error::{Error, Result};
use crate::format::{FLAG_UNIFORM, Header, Shape, names};
use crate::open::Open;
use crate::storage::replace;
use crate::{compact, create, delete, lock, recover};

impl Store {
    /// Become the store's writer before there is something to write; returns the number of records, which only this handle
    /// can change from here on.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Stale`], I/O.
    pub fn begin_write(&self) -> Result<u64> {
        self.reading(|open| Ok(self.writer(&mut self.writer_guard()?, open)?.header.length))
    }

    /// Become the writer, and keep every other handle off the store over several calls, until [`Store::release`] or the end of this
    /// handle; returns the number of records. `what` needs it, and is named where it is refused. Holding twice is holding once.
    ///
    /// # Errors
    /// As [`Store::begin_write`], and [`Error::Locked`] if another handle has the store open.
    pub fn hold(&self, what: &str) -> Result<u64> {
        self.refuse_after_fork(what)?;
        let guard = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let open = guard.as_ref().ok_or_else(|| self.closed())?;
        let length = self.writer(&mut self.writer_guard()?, open)?.header.length;
        if !self.held.load(Ordering::Acquire) {
            lock::exclude(open.dir.path(), &*open.meta, what)?;
            self.held.store(true, Ordering::Release);
        }
        Ok(length)
    }

    /// Let others open the store again after [`Store::hold`]. Nothing to do, and no error, where it isn't held.
    ///
    /// # Errors
    /// [`Error::Locked`] if the reader's lock can't be had back.
    pub fn release(&self) -> Result<()> {
        if self.process != std::process::id() {
            // A forked child never held it, and would give back its parent's lock.
            return Ok(());
        }
        let guard = self.open.write().unwrap_or_else(PoisonError::into_inner);
        match guard.as_ref() {
            Some(open) if self.held.swap(false, Ordering::AcqRel) => {
                lock::relax(open.dir.path(), &*open.meta)
            }
            _ => Ok(()),
        }
    }

    /// See no more than the first `length` records until the next refresh; returns how many are seen. For stores that grow together,
    /// and are read as far as all of them have come. A writer goes on seeing all that it wrote.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn limit(&self, length: u64) -> Result<u64> {
        self.reading(|open| {
            let slot = self.writer_guard()?;
            let mut header = open.header();
            let writes = matches!(&*slot, WriterSlot::Active(writer) if writer.belongs_here());
            if !writes && length < header.length {
                // The tail stays that of all records, so what follows from both no longer holds.
                header = Header { length, flags: header.flags & !FLAG_UNIFORM, ..header };
                open.publish(header);
            }
            Ok(header.length)
        })
    }

    /// Append all of `records`, or none of them; returns the index of the first. `shapes` has an entry a record;
    /// without it all are one-dimensional.
    ///
    /// When it returns, other handles see the records after [`Store::refresh`], and a killed process doesn't lose them. What a power
    /// cut can't take is what [`Store::sync`] or [`Store::close`] returned for.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for no record, [`Error::RecordTooLong`], [`Error::MissingDictionary`], [`Error::Locked`],
    /// [`Error::ReadOnly`], [`Error::Poisoned`], I/O. Whatever the error, the store is as it was.
    pub fn append(&self, records: &Records<'_>, shapes: Option<&[Shape]>) -> Result<u64> {
        self.reading(|open| {
            append::check(open, &open.header(), records, shapes)?;
            let mut slot = self.writer_guard()?;
            let writer = self.writer(&mut slot, open)?;
            let outcome = append::append(open, writer, records, shapes, &self.options);
            if outcome.is_err() {
                // What was written lies behind the header and is nobody's; space is given back if that still works. Rows that were cut must
                // not come back below the header of a later append.
                let header = writer.header;
                let undone = writer
                    .write_header(header)
                    .and_then(|()| writer.cut_files(&header))
                    .and_then(|()| writer.sync_tables());
                if undone.is_err() {
                    let _: Result<()> = poison(&mut slot, undone);
                }
            }
            poison(&mut slot, outcome)
        })
    }

    /// Remove the records `idxs` (any order, duplicates fine) by swap-last in descending order: live records stay
    /// exactly `0..len`, so survivors from the end get the indices of removed ones. All or nothing, also in a crash.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`], [`Error::Locked`] if any other handle has the store open, else as [`Store::append`].
    pub fn delete(&self, idxs: &[u64]) -> Result<()> {
        self.moving("delete", |open, writer| {
            let length = writer.header.length;
            if let Some(&index) = idxs.iter().find(|&&index| index >= length) {
                return Err(Error::IndexOutOfRange { index, length });
            }
            if idxs.is_empty() { Ok(()) } else { delete::delete(open, writer, idxs) }
        })
    }

    /// Give back the space that deleted records left, in place, in physical order. Safe to interrupt; running it again
    /// finishes the job. Takes 24 bytes of memory a record.
    ///
    /// # Errors
    /// As [`Store::delete`]; [`Error::CorruptRecord`] before anything is changed if the table can't be right.
    pub fn compact(&self) -> Result<()> {
        self.moving("compact", |open, writer| compact::compact(open, writer, &self.options))
    }

    /// Make everything that was appended durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`], I/O.
    pub fn sync(&self) -> Result<()> {
        self.reading(|_| {
            let mut slot = self.writer_guard()?;
            let outcome = match &mut *slot {
                WriterSlot::Active(writer) if writer.belongs_here() => writer.sync(),
                WriterSlot::Poisoned(cause) => return Err(self.poisoned(cause)),
                _ => Ok(()),
            };
            poison(&mut slot, outcome)
        })
    }

    /// Install the dictionary of a `zstd_dict` store. One that records were written with stays.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for another codec, for bytes that are no dictionary, and for another dictionary than
    /// the one that records were written with.
    pub fn install_dict(&self, bytes: &[u8]) -> Result<()> {
        if self.codec != Codec::ZstdDict {
            let why = format!("a {} store takes no dictionary; only zstd_dict stores do", self.codec.name());
            return Err(Error::InvalidArgument(why));
        }
        let dictionary = Arc::new(Dictionary::new(bytes.to_vec())?);
        self.reading(|open| {
            let mut slot = self.writer_guard()?;
            let writer = self.writer(&mut slot, open)?;
            let installed = open.dictionary();
            if installed.as_ref().is_some_and(|installed| installed.bytes() == bytes) {
                return Ok(());
            }
            if writer.header.length > 0 {
                create::check_dictionary(open, installed.is_some(), &dictionary)?;
            }
            let outcome = writer
                .note_dictionary(0)
                .and_then(|()| {
                    replace(&*open.dir, names::DICT, bytes).map_err(writer.fail("write", names::DICT))
                })
                .and_then(|()| writer.note_dictionary(crc32c(bytes)));
            if outcome.is_ok() {
                open.use_dictionary(dictionary);
            }
            poison(&mut slot, outcome)
        })
    }

    /// Give a store that keeps its shapes elsewhere (loaderx 1.x: in the schema) a shape table, and the schema that goes
    /// with it. `shapes` has an entry a record. A store with checksums must not be open elsewhere.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there aren't as many shapes as records, else as [`Store::append`].
    pub fn adopt_shapes(&self, shapes: &[Shape], schema: &[u8]) -> Result<()> {
        let adopt = |open: &Open, writer: &mut Writer| {
            let expected = writer.header.length;
            if shapes.len() as u64 != expected {
                let why = format!("got {} shapes for {expected} records", shapes.len());
                return Err(Error::InvalidArgument(why));
            }
            create::adopt_shapes(open, writer, shapes, schema)
        };
        if self.sums_known()? && !shapes.iter().all(Shape::is_plain) {
            // The sums of records change that others may be reading.
            return self.moving("moving shapes into the store", adopt);
        }
        self.reading(|open| {
            let mut slot = self.writer_guard()?;
            let outcome = adopt(open, self.writer(&mut slot, open)?);
            poison(&mut slot, outcome)
        })
    }

    /// Run what moves records: alone in this handle, and with no other handle on the store.
    fn moving<T>(&self, what: &'static str, work: impl FnOnce(&Open, &mut Writer) -> Result<T>) -> Result<T> {
        self.refuse_after_fork(what)?;
        let mut guard = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let open = guard.as_ref().ok_or_else(|| self.closed())?;
        let mut slot = self.writer_guard()?;
        let writer = self.writer(&mut slot, open)?;
        let held = self.held.load(Ordering::Acquire);
        if !held {
            lock::exclude(open.dir.path(), &*open.meta, what)?;
        }
        let outcome = writer.sync().and_then(|()| work(open, writer));
        open.publish(writer.header);
        open.forget_files();
        let shared = if held { Ok(()) } else { lock::relax(open.dir.path(), &*open.meta) };
        let outcome = poison(&mut slot, outcome).and_then(|value| shared.map(|()| value));
        if outcome.is_err() && !recover::is_settled(open) {
            // The table may be changed in part. Whoever opens the store next finishes the change; this handle reads no more.
            self.closed.store(true, Ordering::Release);
            if let Some(open) = guard.take() {
                open.release();
            }
        }
        outcome
    }

    /// A child has its parent's lock, so that no lock could tell that the parent is there.
    fn refuse_after_fork(&self, what: &str) -> Result<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        let reason =
            format!("{what} needs the store alone, but this handle came through a fork; reopen the store");
        Err(Error::Locked { path: self.path().to_path_buf(), reason })
    }

    /// The writer, made now if this handle has none.
    fn writer<'a>(&self, slot: &'a mut MutexGuard<'_, WriterSlot>, open: &Open) -> Result<&'a mut Writer> {
        if self.options.read_only {
            return Err(Error::ReadOnly { path: open.path() });
        }
        let inherited = matches!(&**slot, WriterSlot::Active(writer) if !writer.belongs_here());
        if inherited || matches!(**slot, WriterSlot::Idle) {
            let writer = Writer::acquire(open, &self.options)?;
            let before = open.header();
            if writer.header.generation != before.generation {
                return Err(stale(open, &writer.header, &before));
            }
            open.publish(writer.header);
            if self.process == std::process::id() {
                open.meta.move_to(&writer.meta);
            }
            **slot = WriterSlot::Active(Box::new(writer));
        }
        match &mut **slot {
            WriterSlot::Active(writer) => Ok(writer),
            WriterSlot::Poisoned(cause) => Err(self.poisoned(cause)),
            WriterSlot::Idle => Err(Error::Internal("the writer is missing".to_owned())),
        }
    }
}

/// After a failed write the writer is dead and says so; what was refused before anything was written doesn't count.
fn poison<T>(slot: &mut MutexGuard<'_, WriterSlot>, outcome: Result<T>) -> Result<T> {
    if let Err(e) = &outcome
        && matches!(e, Error::Io { .. } | Error::Internal(_))
    {
        let mut cause = e.to_string();
        if let WriterSlot::Active(writer) = &mut **slot
            && let Err(e) = writer.end_sync_ahead()
        {
            // The system tells it once: nobody would hear of it again.
            cause = format!("{cause}; and {e}");
        }
        **slot = WriterSlot::Poisoned(cause);
    }
    outcome
}
