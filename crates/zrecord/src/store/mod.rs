//! The handle: what is open, who writes, and the order of the two.

mod inherited;
mod read;
mod write;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crate::append::Writer;
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::format::{FLAG_SHAPES, FLAG_SUMS, Header};
use crate::open::Open;
use crate::options::Options;
use crate::storage::Directory;
use crate::{create, lock, settle};
use inherited::Inherited;

/// How long a forked child waits for a lock that may be held by a thread that it doesn't have.
const FORKED_PATIENCE: Duration = Duration::from_secs(2);

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
    /// Set first thing by `close`, which in a forked child can't count on getting at `open`.
    closed: AtomicBool,
    /// Between `hold` and `release`; changed only with `open` locked for writing.
    held: AtomicBool,
    process: u32,
    inherited: Inherited,
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
        settle::settle(&open, &found, &options)?;
        open.check_lengths(&open.header())?;
        let (codec, level) = (open.codec, open.level);
        let writer = Mutex::new(WriterSlot::Idle);
        let open = RwLock::new(Some(open));
        let (closed, held) = (AtomicBool::new(false), AtomicBool::new(false));
        let (process, inherited) = (std::process::id(), Inherited::default());
        Ok(Self { dir, codec, level, options, open, closed, held, process, inherited, writer })
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
        // A child that can't tell has not written itself.
        self.writer_guard().is_ok_and(|slot| !matches!(*slot, WriterSlot::Idle))
    }

    /// Whether any handle, in this process or another, is the store's writer now.
    #[must_use]
    pub fn has_writer(&self) -> bool {
        lock::writer_alive(&*self.dir)
    }

    /// Whether the handle was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn header(&self) -> Result<Header> {
        self.reading(|open| Ok(open.header()))
    }

    /// Sync, give the locks back, and refuse everything from here on. Closing twice is fine.
    ///
    /// # Errors
    /// The last sync's. The handle is closed all the same.
    pub fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::Release);
        if self.process != std::process::id() {
            // A thread of the parent's that held a lock at the fork holds it here for ever: take what may be had. The
            // operating system's locks stay the parent's, but for the one that the child took.
            self.release_in_child();
            if let (Ok(mut open), Ok(mut slot)) = (self.open.try_write(), self.writer.try_lock()) {
                (*open, *slot) = (None, WriterSlot::Idle);
            }
            return Ok(());
        }
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        let mut slot = self.lock_writer();
        let outcome = match std::mem::replace(&mut *slot, WriterSlot::Idle) {
            WriterSlot::Active(mut writer) if writer.belongs_here() => writer.sync(),
            _ => Ok(()),
        };
        if let Some(open) = open.take() {
            open.release();
        }
        outcome
    }

    /// Whether this handle's lock keeps others from moving records.
    pub(crate) fn is_guarded(&self) -> Result<bool> {
        self.reading(|open| Ok(open.is_guarded()))
    }

    /// Close a handle that only reads, but don't give its lock back before the last descriptor is closed: a forked child has one too, and
    /// may be looking at what the lock protects.
    pub(crate) fn leave(&self) {
        self.closed.store(true, Ordering::Release);
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    // -- how a method gets at what is open

    fn reading<T>(&self, work: impl FnOnce(&Open) -> Result<T>) -> Result<T> {
        if self.is_closed() {
            return Err(self.closed());
        }
        let guard = self.read_guard()?;
        let open = guard.as_ref().ok_or_else(|| self.closed())?;
        if self.process != std::process::id() {
            self.hold_in_child(open)?;
        }
        work(open)
    }

    fn read_guard(&self) -> Result<RwLockReadGuard<'_, Option<Open>>> {
        self.guard(|| self.open.read(), || self.open.try_read())
    }

    fn writer_guard(&self) -> Result<MutexGuard<'_, WriterSlot>> {
        self.guard(|| self.writer.lock(), || self.writer.try_lock())
    }

    /// In a forked child a lock that a thread of the parent held at the fork is never given back: it is not waited for without end.
    fn guard<G>(
        &self,
        wait: impl FnOnce() -> std::result::Result<G, PoisonError<G>>,
        attempt: impl Fn() -> std::result::Result<G, TryLockError<G>>,
    ) -> Result<G> {
        if self.process == std::process::id() {
            return Ok(wait().unwrap_or_else(PoisonError::into_inner));
        }
        let start = Instant::now();
        loop {
            match attempt() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if start.elapsed() > FORKED_PATIENCE => {
                    return Err(self.forked());
                }
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    fn forked(&self) -> Error {
        let reason =
            "this handle came through a fork while another thread wrote with it; reopen the store".to_owned();
        Error::Locked { path: self.path().to_path_buf(), reason }
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

fn stale(open: &Open, found: &Header, expected: &Header) -> Error {
    Error::Stale { path: open.path(), found: found.generation, expected: expected.generation }
}
