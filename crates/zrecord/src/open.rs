//! An open store's files and its committed state, as a reader sees them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;

use crate::checksum::crc32c;
use crate::codec::{Codec, Decoder, Dictionary};
use crate::error::{Error, Result};
use crate::format::{
    EXTENSION, Entry, FLAG_SHAPES, FLAG_SUMS, FORMAT_VERSION, Header, HeaderFault, HeaderState, Shape, Sum,
    SyncSlot, names,
};
use crate::gather::{Ahead, Checked};
use crate::lock::{self, LockedMeta};
use crate::options::{Options, Verify};
use crate::published::Published;
use crate::storage::{Access, Column, Directory, File, NumberedFiles, read_small, read_start};

/// More than any dictionary: zstd trains at most a few MiB.
const DICT_LIMIT: u64 = 1 << 28;

/// Files, all read-only, and the header that says how far they are valid.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) dir: Arc<dyn Directory>,
    pub(crate) meta: LockedMeta,
    pub(crate) loc: Column,
    pub(crate) sum: Column,
    pub(crate) shape: Column,
    pub(crate) chunks: NumberedFiles,
    pub(crate) codec: Codec,
    pub(crate) level: Option<i32>,
    pub(crate) verify: Verify,
    /// What `Verify::Once` has checked.
    pub(crate) checked: Checked,
    /// Whether what is read was in memory lately.
    pub(crate) ahead: Ahead,
    header: Published<Header>,
    /// The length of record 0, once it was asked for where all records are alike; else 0.
    first_length: AtomicU32,
    /// Whether the table agreed with the arithmetic where it was looked at: 0 not looked yet, 1 yes, 2 no.
    agrees: AtomicU8,
    /// The generation in `meta.zr` at first, where no lock is known to keep others from moving records.
    unguarded: Option<u32>,
    dictionary: RwLock<Option<Arc<Dictionary>>>,
}

/// What `meta.zr` and `sync.zr` say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) header: Header,
    /// The header's bytes, for where its checksum doesn't match.
    pub(crate) bytes: [u8; Header::SIZE],
    pub(crate) state: HeaderState,
    pub(crate) slot: Option<SyncSlot>,
    /// Whether one of the two slots is neither whole nor unwritten: if it was the newer one, the durable point is an older one.
    pub(crate) slot_damaged: bool,
}

impl Open {
    /// Open the files and take the header as it stands; whether it may be believed is up to `recover`.
    pub(crate) fn load(dir: &Arc<dyn Directory>, options: &Options) -> Result<(Self, Found)> {
        let path = dir.path().join(names::META);
        let meta = dir.open(names::META, Access::Read).map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                Error::NotAStore { path: dir.path().to_path_buf(), reason: "it holds no meta.zr".to_owned() }
            }
            _ => Error::io("open", path)(e),
        })?;
        let locked = lock::share(dir.path(), &*meta)?;
        // Where maps aren't offered, a lock may be good on this machine only.
        let guarded = locked && matches!(meta.map(), Ok(Some(_)));
        let found = Found::read(&**dir, &*meta)?;
        let unguarded = (!guarded).then(|| Header::stated_generation(&found.bytes));
        Ok((Self { unguarded, ..Self::assemble(dir, meta, &found, options)? }, found))
    }

    /// The files around a header that was found.
    pub(crate) fn assemble(
        dir: &Arc<dyn Directory>,
        meta: Arc<dyn File>,
        found: &Found,
        options: &Options,
    ) -> Result<Self> {
        let codec = found.header.codec;
        let column = |extension, width| Column::new(dir, extension, width, options.segment_bits);
        Ok(Self {
            loc: column(names::LOC, Entry::SIZE),
            sum: column(names::SUM, Sum::SIZE),
            shape: column(names::SHAPE, Shape::SIZE),
            chunks: NumberedFiles::new(dir, names::CHUNK),
            dir: dir.clone(),
            meta: LockedMeta::new(meta),
            codec,
            level: codec.default_level().map(|default| found.slot.map_or(default, |slot| slot.level)),
            verify: options.verify,
            checked: Checked::default(),
            ahead: Ahead::default(),
            header: Published::new(found.header),
            first_length: AtomicU32::new(0),
            agrees: AtomicU8::new(0),
            unguarded: None,
            dictionary: RwLock::new(load_dictionary(&**dir, found)?),
        })
    }

    /// Give the reader's lock back, also where a forked child has a copy of the descriptor.
    pub(crate) fn release(&self) {
        // Without it the lock still goes with the last descriptor.
        let _ = self.meta.unlock();
    }

    /// Whether a lock keeps others from moving records as long as this is open.
    pub(crate) fn is_guarded(&self) -> bool {
        self.unguarded.is_none()
    }

    pub(crate) fn header(&self) -> Header {
        self.header.get()
    }

    /// Let readers of this handle see a header whose every record is in place.
    pub(crate) fn publish(&self, header: Header) {
        self.header.set(header);
    }

    /// [`Error::Stale`] if somebody moved records and no lock was in the way: what was just read may be other records' bytes. A
    /// change that is under way at this moment doesn't show yet.
    pub(crate) fn check_unmoved(&self) -> Result<()> {
        let Some(first) = self.unguarded else { return Ok(()) };
        let mut bytes = [0; Header::SIZE];
        self.meta.read_at(&mut bytes, 0).map_err(|e| unreadable(e, self.dir.path().join(names::META)))?;
        let (found, expected) = (Header::stated_generation(&bytes), self.header().generation);
        // A header that was believed though it differs from the file's is put right by the next writer.
        if found == expected || found == first {
            return Ok(());
        }
        Err(Error::Stale { path: self.path(), found, expected })
    }

    /// The length of record 0, which stays the same as long as no record is moved.
    pub(crate) fn first_length(&self) -> Result<u32> {
        let known = self.first_length.load(Ordering::Relaxed);
        if known != 0 {
            return Ok(known);
        }
        let mut bytes = [0; Entry::SIZE];
        self.loc.read_range(0, &mut bytes)?;
        let read = Entry::decode(&bytes).logical;
        self.first_length.store(read, Ordering::Relaxed);
        Ok(read)
    }

    /// Whether the table agrees with what `look` says of it, which is asked once.
    pub(crate) fn agrees(&self, look: impl FnOnce() -> Result<bool>) -> Result<bool> {
        match self.agrees.load(Ordering::Relaxed) {
            0 => {
                let agrees = look()?;
                self.agrees.store(if agrees { 1 } else { 2 }, Ordering::Relaxed);
                Ok(agrees)
            }
            known => Ok(known == 1),
        }
    }

    pub(crate) fn dictionary(&self) -> Option<Arc<Dictionary>> {
        self.dictionary.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn use_dictionary(&self, dictionary: Arc<Dictionary>) {
        *self.dictionary.write().unwrap_or_else(PoisonError::into_inner) = Some(dictionary);
    }

    /// Load the dictionary if another handle installed one since.
    pub(crate) fn follow_dictionary(&self) -> Result<()> {
        if self.codec != Codec::ZstdDict {
            return Ok(());
        }
        let load = || {
            let found = Found::read(&*self.dir, &*self.meta)?;
            let stated = found.slot.map_or(0, |slot| slot.dict_crc);
            let known = |held: Arc<Dictionary>| stated == 0 || crc32c(held.bytes()) == stated;
            if self.dictionary().is_some_and(known) { Ok(None) } else { load_dictionary(&*self.dir, &found) }
        };
        // A slot and a file of different moments don't fit: look again.
        if let Some(dictionary) = load().or_else(|_| load())? {
            self.use_dictionary(dictionary);
        }
        Ok(())
    }

    /// A decoder for this store's records.
    pub(crate) fn decoder(&self) -> Result<Decoder> {
        let dictionary = self.dictionary();
        if self.codec == Codec::ZstdDict && dictionary.is_none() {
            return Err(self.missing_dictionary(
                "its records can't be read; put the file back, or install_dict the same dictionary",
            ));
        }
        Ok(Decoder::new(self.codec, dictionary)?)
    }

    pub(crate) fn missing_dictionary(&self, reason: &'static str) -> Error {
        Error::MissingDictionary { path: self.dir.path().to_path_buf(), reason }
    }

    /// Check in constant time that the files are as long as `header` needs.
    pub(crate) fn check_lengths(&self, header: &Header) -> Result<()> {
        self.loc.check_length(header.length)?;
        if header.has(FLAG_SUMS) {
            self.sum.check_length(header.length)?;
        }
        if header.has(FLAG_SHAPES) {
            self.shape.check_length(header.length)?;
        }
        if header.tail_offset > 0 {
            let (chunk, needed) = (u64::from(header.tail_chunk), u64::from(header.tail_offset));
            let found = self.chunks.length(chunk)?;
            if found < needed {
                let expected = format!("at least {needed} bytes");
                return Err(Error::corrupt(
                    self.chunks.path(chunk),
                    "the length of a chunk",
                    found,
                    expected,
                ));
            }
        }
        Ok(())
    }

    /// Forget open tables and chunks, and what was checked: they were cut or rewritten.
    pub(crate) fn forget_files(&self) {
        self.checked.forget();
        self.first_length.store(0, Ordering::Relaxed);
        self.agrees.store(0, Ordering::Relaxed);
        self.loc.forget();
        self.sum.forget();
        self.shape.forget();
        self.chunks.forget();
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().to_path_buf()
    }
}

impl Found {
    pub(crate) fn read(dir: &dyn Directory, meta: &dyn File) -> Result<Self> {
        let (bytes, header, state) = read_header(dir, meta)?;
        let slots = read_start(dir, names::SYNC, SyncSlot::FILE_SIZE);
        let slots = slots.map_err(Error::io("read", dir.path().join(names::SYNC)))?;
        let slot = slots.as_deref().and_then(SyncSlot::newest);
        let slot_damaged = slots.as_deref().is_some_and(SyncSlot::one_is_damaged);
        Ok(Self { header, bytes, state, slot, slot_damaged })
    }

    /// What would be found if the last sync had been the last thing to happen.
    pub(crate) fn of_slot(slot: SyncSlot) -> Self {
        Self {
            header: slot.header,
            bytes: slot.header.encode(),
            state: HeaderState::Ours,
            slot: Some(slot),
            slot_damaged: false,
        }
    }
}

/// Read `meta.zr`. A header that is being rewritten at this moment can look torn, so a mismatch is read again.
fn read_header(dir: &dyn Directory, meta: &dyn File) -> Result<([u8; Header::SIZE], Header, HeaderState)> {
    // Nobody else writes while a fuzzer runs, and it would spend its time waiting.
    const TRIES: u32 = if cfg!(fuzzing) { 1 } else { 20 };
    let path = || dir.path().join(names::META);
    let mut bytes = [0; Header::SIZE];
    for attempt in 1.. {
        meta.read_at(&mut bytes, 0).map_err(|e| unreadable(e, path()))?;
        match Header::decode(&bytes) {
            Ok((_, HeaderState::Mismatch)) if attempt < TRIES => thread::yield_now(),
            Ok((header, state)) => return Ok((bytes, header, state)),
            Err(fault) => return Err(header_error(fault, path())),
        }
    }
    Err(Error::Internal("the header was not read".to_owned()))
}

fn unreadable(e: std::io::Error, path: PathBuf) -> Error {
    match e.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::corrupt(path, "the length of the header", e, "32 bytes"),
        _ => Error::io("read", path)(e),
    }
}

fn header_error(fault: HeaderFault, path: PathBuf) -> Error {
    match fault {
        HeaderFault::Magic(found) => Error::NotAStore {
            path,
            reason: format!("it begins with {:?}, expected \"ZREC\"", String::from_utf8_lossy(&found)),
        },
        HeaderFault::Version(found) => Error::UnsupportedVersion { path, found, expected: FORMAT_VERSION },
        HeaderFault::Codec(found) => Error::UnsupportedCodec { path, found },
        HeaderFault::Extension(found) => Error::UnsupportedExtension { path, found, expected: EXTENSION },
    }
}

fn load_dictionary(dir: &dyn Directory, found: &Found) -> Result<Option<Arc<Dictionary>>> {
    if found.header.codec != Codec::ZstdDict {
        return Ok(None);
    }
    let path = || dir.path().join(names::DICT);
    let Some(bytes) = read_small(dir, names::DICT, DICT_LIMIT).map_err(Error::io("read", path()))? else {
        return Ok(None);
    };
    // zstd decodes with a wrong dictionary into wrong bytes without noticing: the checksum is what notices.
    let expected = found.slot.map_or(0, |slot| slot.dict_crc);
    let crc = crc32c(&bytes);
    if expected != 0 && crc != expected {
        let (found, expected) = (format!("{crc:#010x}"), format!("{expected:#010x}"));
        return Err(Error::corrupt(path(), "the checksum of the dictionary", found, expected));
    }
    let dictionary = Dictionary::new(bytes)
        .map_err(|e| Error::corrupt(path(), "the dictionary", e, "a zstd dictionary"))?;
    Ok(Some(Arc::new(dictionary)))
}
