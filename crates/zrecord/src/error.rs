//! What can fail. Misuse, state, corruption, locks and I/O are kept apart; each message says what, where, found and expected.

use std::io;
use std::path::PathBuf;

use crate::codec::CodecError;

/// The result of every operation on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that an operation on a store can fail with.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    // -- misuse: nothing was changed
    /// An argument that no store could take.
    #[error("{0}")]
    InvalidArgument(String),
    /// A record index at or beyond the length.
    #[error("record index {index} is out of range for a store of {length} records")]
    IndexOutOfRange {
        /// The index asked for.
        index: u64,
        /// The number of records.
        length: u64,
    },
    /// A record longer than [`crate::MAX_RECORD_LEN`].
    #[error("record {record} of the append has {found} bytes, more than the {limit} bytes a record can have")]
    RecordTooLong {
        /// Position in the append.
        record: usize,
        /// Its bytes.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// A record that doesn't fit the place given for it.
    #[error("record {record} has {found} bytes, but the destination expects {expected}")]
    LengthMismatch {
        /// The record's index.
        record: u64,
        /// Its bytes.
        found: u64,
        /// Bytes of the place.
        expected: u64,
    },
    /// The handle was closed.
    #[error("the store {path} is closed")]
    Closed {
        /// The store.
        path: PathBuf,
    },
    /// A write through a read-only handle.
    #[error("the store {path} was opened read-only")]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },

    // -- what is there is not what was asked for
    /// No store at the path.
    #[error("{path} is not a zrecord store: {reason}")]
    NotAStore {
        /// The path.
        path: PathBuf,
        /// What is missing or different.
        reason: String,
    },
    /// Nothing at the path.
    #[error("{path} does not exist; there is no store to open")]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// Creating over an existing store.
    #[error("{path} already holds a store; open it instead")]
    AlreadyExists {
        /// The path.
        path: PathBuf,
    },
    /// A format version that this code doesn't know.
    #[error("{path} has format version {found}, but this version reads only {expected}")]
    UnsupportedVersion {
        /// The header file.
        path: PathBuf,
        /// Version found.
        found: u8,
        /// Version read.
        expected: u8,
    },
    /// An extension of the format that this code doesn't know.
    #[error(
        "{path} was written by a newer version (format extension {found}, this version knows {expected}): upgrade to read it"
    )]
    UnsupportedExtension {
        /// The header file.
        path: PathBuf,
        /// Extension found.
        found: u8,
        /// Extension known.
        expected: u8,
    },
    /// A codec that this code doesn't know.
    #[error("{path} names codec {found}, but only 0 (raw), 1 (zstd) and 2 (zstd_dict) are known")]
    UnsupportedCodec {
        /// The header file.
        path: PathBuf,
        /// The tag found.
        found: u8,
    },
    /// The codec given contradicts the store's.
    #[error("{path} holds codec {found}, but {expected} was asked for; a store's codec never changes")]
    CodecMismatch {
        /// The store.
        path: PathBuf,
        /// Its codec.
        found: &'static str,
        /// The one given.
        expected: &'static str,
    },
    /// A `zstd_dict` store without its dictionary.
    #[error("{path} is a zstd_dict store without a dictionary (dict.zr): {reason}")]
    MissingDictionary {
        /// The store.
        path: PathBuf,
        /// What can't be done, and the way out.
        reason: &'static str,
    },

    // -- corruption
    /// A file of the store is damaged, cut or missing.
    #[error("{path} is damaged: {what}: found {found}, expected {expected}")]
    CorruptStore {
        /// The file.
        path: PathBuf,
        /// Which fact doesn't hold.
        what: &'static str,
        /// What the file says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// A record whose bytes or table entry are wrong.
    #[error(
        "record {record} of {path} (chunk {chunk}, offset {offset}) is damaged: {what}: found {found}, expected {expected}"
    )]
    CorruptRecord {
        /// The store.
        path: PathBuf,
        /// The record's index.
        record: u64,
        /// Its chunk.
        chunk: u32,
        /// Its offset in the chunk.
        offset: u32,
        /// Which fact doesn't hold.
        what: &'static str,
        /// What was found.
        found: String,
        /// What should be.
        expected: String,
    },

    // -- state
    /// The lock that the operation needs is held by someone else.
    #[error("{path} is locked: {reason}")]
    Locked {
        /// The store.
        path: PathBuf,
        /// Who holds it, and what that refuses.
        reason: String,
    },
    /// Records were moved by somebody else since the handle looked.
    #[error(
        "{path} was deleted from or compacted since it was opened (generation {found}, opened at {expected}): reopen it"
    )]
    Stale {
        /// The store.
        path: PathBuf,
        /// Generation on disk.
        found: u32,
        /// Generation of the handle.
        expected: u32,
    },
    /// A write failed before; the handle's writer refuses until the store is reopened.
    #[error(
        "an earlier write to {path} failed ({cause}); reads go on, but reopen the store before writing again"
    )]
    Poisoned {
        /// The store.
        path: PathBuf,
        /// The first failure.
        cause: String,
    },
    /// A compaction, delete or append that was cut short must be finished first, and can't be from here.
    #[error("{path} has an unfinished delete or compact: open it once with write permission to finish it")]
    Unfinished {
        /// The store.
        path: PathBuf,
    },

    /// Whoever watched a long piece of work ended it; nothing is left half done.
    #[error("the work on {path} was interrupted")]
    Interrupted {
        /// The store.
        path: PathBuf,
    },

    /// The codec refused.
    #[error("{0}")]
    Codec(#[from] CodecError),
    /// The operating system refused.
    #[error("could not {verb} {path}: {source}")]
    Io {
        /// What was tried.
        verb: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A fault of this library: a worker panicked.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// Wrap an I/O error with what was tried, and where.
    pub(crate) fn io(verb: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { verb, path, source }
    }

    /// A damaged file of the store.
    pub(crate) fn corrupt(
        path: impl Into<PathBuf>,
        what: &'static str,
        found: impl ToString,
        expected: impl ToString,
    ) -> Error {
        Error::CorruptStore {
            path: path.into(),
            what,
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }
}
