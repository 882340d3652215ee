//! The handle: what is open, who writes, and the order of the two.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::append::{self, Records, Writer};
use crate::codec::{Codec, Dictionary};
use crate::error::{Error, Result};
use crate::format::{FLAG_SHAPES, FLAG_SUMS, Header, Shape, crc32c, names};
use crate::gather::{self, Destination};
use crate::open::{Found, Open};
use crate::options::Options;
use crate::recover::{self, Condition};
use crate::stats::Stats;
use crate::storage::{Directory, replace};
use crate::{compact, create, delete, lock, stats};

/// A store of byte records. All methods take `&self` and may be called from many threads.
///
/// A handle begins as a reader. Its first write makes it the store's one writer, until it is closed or dropped.
#[derive(Debug)]
pub struct Store {
    dir: Arc<dyn Directory>,
    codec: Codec,
    level: Option<i32>,
    options: Options,
    /// `None` once closed. Reads and appends share it; what moves records has it alone.
    open: RwLock<Option<Open>>,
    writer: Mutex<WriterSlot>,
}

#[derive(Debug)]
enum WriterSlot {
    Idle,
    Active(Box<Writer>),
    /// A write failed; the text says which.
    Poisoned(String),
}

impl Store {
    /// Create a store in a directory that is missing or empty, and open it.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`], [`Error::NotAStore`] if the directory holds something else, a level that the codec
    /// doesn't have, I/O.
    pub fn create(path: &Path, options: Options) -> Result<Self> {
        let dir = create::prepare_directory(path, &options)?;
        Self::create_in(dir, options)
    }

    /// Open an existing store. It costs the same for ten records and a billion.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotAStore`], an unsupported version or codec, [`Error::CodecMismatch`],
    /// [`Error::CorruptStore`], I/O.
    pub fn open(path: &Path, options: Options) -> Result<Self> {
        Self::open_in(create::existing_directory(path, &options)?, options)
    }

    /// Whether there is a store at `path`.
    #[must_use]
    pub fn exists(path: &Path) -> bool {
        create::exists(path)
    }

    pub(crate) fn create_in(dir: Arc<dyn Directory>, options: Options) -> Result<Self> {
        create::create(&dir, &options)?;
        Self::open_in(dir, options)
    }

    pub(crate) fn open_in(dir: Arc<dyn Directory>, options: Options) -> Result<Self> {
        let (open, found) = Open::load(&dir, &options)?;
        if let Some(expected) = options.codec
            && expected != open.codec
        {
            let (found, expected) = (open.codec.name(), expected.name());
            return Err(Error::CodecMismatch { path: open.path(), found, expected });
        }
        settle(&open, &found, &options)?;
        open.check_lengths(&open.header())?;
        let (codec, level) = (open.codec, open.level);
        let writer = Mutex::new(WriterSlot::Idle);
        Ok(Self { dir, codec, level, options, open: RwLock::new(Some(open)), writer })
    }

    // -- facts

    /// The store's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The store's codec.
    #[must_use]
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// The zstd level of what is appended; `None` for raw stores.
    #[must_use]
    pub fn level(&self) -> Option<i32> {
        self.level
    }

    /// The number of records that this handle sees.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn len(&self) -> Result<u64> {
        Ok(self.header()?.length)
    }

    /// Whether this handle sees no record.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Raised by each delete and compact.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn generation(&self) -> Result<u32> {
        Ok(self.header()?.generation)
    }

    /// Whether every record has a checksum; not so after a plain version 3 writer.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn sums_known(&self) -> Result<bool> {
        Ok(self.header()?.has(FLAG_SUMS))
    }

    /// Whether the store keeps shapes: some record was not one-dimensional.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn has_shapes(&self) -> Result<bool> {
        Ok(self.header()?.has(FLAG_SHAPES))
    }

    /// Whether a dictionary is installed.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub fn has_dict(&self) -> Result<bool> {
        self.reading(|open| Ok(open.dictionary().is_some()))
    }

    /// Whether this handle is the store's writer.
    #[must_use]
    pub fn has_written(&self) -> bool {
        !matches!(*self.lock_writer(), WriterSlot::Idle)
    }

    /// Whether the handle was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.open.read().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    fn header(&self) -> Result<Header> {
        self.reading(|open| Ok(open.header()))
    }

    // -- reading

    /// Record `idxs[i]` into `dst` at byte `offsets[i]`; the places must not overlap.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`], [`Error::InvalidArgument`] for places that overlap or pass the end, [`Error::CorruptRecord`],
    /// [`Error::CorruptStore`], I/O. On an error the content of `dst` is unspecified.
    pub fn gather(&self, idxs: &[u64], dst: &mut [u8], offsets: &[u64]) -> Result<()> {
        self.reading(|open| {
            let lengths = gather::lengths(open, idxs)?;
            gather::gather(open, idxs, Destination::places(dst, offsets, &lengths)?, self.options.verify)
        })
    }

    /// Record `idxs[i]` into row i of `dst`, whose rows are `dst.len() / idxs.len()` bytes long.
    ///
    /// # Errors
    /// As [`Store::gather`], and [`Error::LengthMismatch`] for a record that isn't exactly one row long.
    pub fn gather_rows(&self, idxs: &[u64], dst: &mut [u8]) -> Result<()> {
        self.reading(|open| {
            gather::gather(open, idxs, Destination::rows(dst, idxs.len())?, self.options.verify)
        })
    }

    /// Where each of the records begins when they are packed one after another; one more offset says where the last one ends.
    ///
    /// # Errors
    /// As [`Store::lengths`].
    pub fn packed_offsets(&self, idxs: &[u64]) -> Result<Vec<u64>> {
        self.reading(|open| gather::packed_offsets(open, idxs))
    }

    /// Logical (uncompressed) bytes of each record.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`], [`Error::CorruptStore`], I/O.
    pub fn lengths(&self, idxs: &[u64]) -> Result<Vec<u32>> {
        self.reading(|open| gather::lengths(open, idxs))
    }

    /// The shape entry of each record; plain ones where the store keeps no shapes.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`], [`Error::CorruptStore`], I/O.
    pub fn shapes(&self, idxs: &[u64]) -> Result<Vec<Shape>> {
        self.reading(|open| gather::shapes(open, idxs))
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
        if let WriterSlot::Active(writer) = &*self.lock_writer()
            && writer.belongs_here()
        {
            return Ok(writer.header.length);
        }
        self.reading(|open| {
            let found = Found::read(&*open.dir, &*open.meta)?;
            let before = open.header();
            let header = match recover::examine(open, &found)? {
                Condition::Settled(header) | Condition::Tail { header, .. } => header,
                Condition::Unfinished(_) => return Err(Error::Unfinished { path: open.path() }),
            };
            if header.generation != before.generation {
                return Err(stale(open, &header, &before));
            }
            open.check_lengths(&header)?;
            open.publish(header);
            Ok(header.length)
        })
    }

    // -- writing

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
            let mut slot = self.lock_writer();
            let writer = self.writer(&mut slot, open)?;
            let outcome = append::append(open, writer, records, shapes, &self.options);
            if outcome.is_err() {
                // What was written lies behind the header and is nobody's; space is given back if that still works.
                let header = writer.header;
                let _ = writer.write_header(header).and_then(|()| writer.cut_files(&header));
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
            let mut slot = self.lock_writer();
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
            let mut slot = self.lock_writer();
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
                .and_then(|()| replace(&*open.dir, names::DICT, bytes).map_err(writer.fail("write", names::DICT)))
                .and_then(|()| writer.note_dictionary(crc32c(bytes)));
            if outcome.is_ok() {
                open.use_dictionary(dictionary);
            }
            poison(&mut slot, outcome)
        })
    }

    /// Give a store that keeps its shapes elsewhere (loaderx 1.x: in the schema) a shape table, and the schema that goes
    /// with it. `shapes` has an entry a record.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if there aren't as many shapes as records, else as [`Store::append`].
    pub fn adopt_shapes(&self, shapes: &[Shape], schema: &[u8]) -> Result<()> {
        self.reading(|open| {
            let mut slot = self.lock_writer();
            let writer = self.writer(&mut slot, open)?;
            let expected = writer.header.length;
            if shapes.len() as u64 != expected {
                let why = format!("got {} shapes for {expected} records", shapes.len());
                return Err(Error::InvalidArgument(why));
            }
            let outcome = create::adopt_shapes(open, writer, shapes, schema);
            poison(&mut slot, outcome)
        })
    }

    /// Sync, give the locks back, and refuse everything from here on. Closing twice is fine.
    ///
    /// # Errors
    /// The last sync's. The handle is closed all the same.
    pub fn close(&self) -> Result<()> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let mut slot = self.lock_writer();
        let outcome = match std::mem::replace(&mut *slot, WriterSlot::Idle) {
            WriterSlot::Active(mut writer) if writer.belongs_here() => writer.sync(),
            _ => Ok(()),
        };
        *open = None;
        outcome
    }

    // -- how a method gets at what is open

    fn reading<T>(&self, work: impl FnOnce(&Open) -> Result<T>) -> Result<T> {
        let guard: RwLockReadGuard<'_, _> = self.open.read().unwrap_or_else(PoisonError::into_inner);
        work(guard.as_ref().ok_or_else(|| self.closed())?)
    }

    /// Run what moves records: alone in this handle, and with no other handle on the store.
    fn moving(&self, what: &'static str, work: impl FnOnce(&Open, &mut Writer) -> Result<()>) -> Result<()> {
        let mut guard: RwLockWriteGuard<'_, _> = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let open = guard.as_ref().ok_or_else(|| self.closed())?;
        let mut slot = self.lock_writer();
        let writer = self.writer(&mut slot, open)?;
        lock::exclude(open.dir.path(), &*open.meta, what)?;
        let outcome = writer.sync().and_then(|()| work(open, writer));
        open.publish(writer.header);
        open.forget_files();
        lock::share(open.dir.path(), &*open.meta)?;
        let outcome = poison(&mut slot, outcome);
        if outcome.is_err() && !recover::is_settled(open) {
            // The table may be changed in part. Whoever opens the store next finishes the change; this handle reads no more.
            *guard = None;
        }
        outcome
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
            **slot = WriterSlot::Active(Box::new(writer));
        }
        match &mut **slot {
            WriterSlot::Active(writer) => Ok(writer),
            WriterSlot::Poisoned(cause) => Err(self.poisoned(cause)),
            WriterSlot::Idle => Err(Error::Internal("the writer is missing".to_owned())),
        }
    }

    fn lock_writer(&self) -> MutexGuard<'_, WriterSlot> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn closed(&self) -> Error {
        Error::Closed { path: self.dir.path().to_path_buf() }
    }

    fn poisoned(&self, cause: &str) -> Error {
        Error::Poisoned { path: self.dir.path().to_path_buf(), cause: cause.to_owned() }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Nobody is left to be told; whoever wants to know whether the last sync worked closes.
        let _ = self.close();
    }
}

/// Believe the header, or mend what a crash left: through a writer if one may be had, in memory otherwise.
fn settle(open: &Open, found: &Found, options: &Options) -> Result<()> {
    let condition = recover::examine(open, found)?;
    if let Condition::Settled(header) = condition {
        open.publish(header);
        return Ok(());
    }
    if lock::writer_alive(&*open.dir) {
        // No crash: the writer is at work. What its header says is there.
        let Condition::Tail { header, .. } = condition else {
            return Err(Error::Unfinished { path: open.path() });
        };
        open.publish(header);
        return Ok(());
    }
    if !options.read_only
        && let Ok(writer) = Writer::acquire(open, options)
    {
        open.publish(writer.header);
        return Ok(());
    }
    match condition {
        Condition::Tail { header, durable } => {
            open.publish(recover::cut_tail(open, &header, &durable)?);
            Ok(())
        }
        _ => Err(Error::Unfinished { path: open.path() }),
    }
}

fn stale(open: &Open, found: &Header, expected: &Header) -> Error {
    Error::Stale { path: open.path(), found: found.generation, expected: expected.generation }
}

/// After a failed write the writer is dead and says so; what was refused before anything was written doesn't count.
fn poison<T>(slot: &mut MutexGuard<'_, WriterSlot>, outcome: Result<T>) -> Result<T> {
    if let Err(e) = &outcome
        && matches!(e, Error::Io { .. } | Error::Internal(_))
    {
        **slot = WriterSlot::Poisoned(e.to_string());
    }
    outcome
}
