//! How a store is created and opened.

use crate::codec::Codec;
use crate::format::{CHUNK_LIMIT, FLAG_SUMS, Header, SEGMENT_BITS};

/// When a gather checks records against their checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// Every record, each time it is read.
    #[default]
    Always,
    /// Every record the first time that this handle reads it: what changes on the disk later isn't noticed. Takes a bit a record.
    Once,
    /// Never; what zstd itself notices is still an error.
    Never,
}

impl Verify {
    /// Whether records of a store with this header are checked.
    pub(crate) fn applies_to(self, header: &Header) -> bool {
        self != Self::Never && header.has(FLAG_SUMS)
    }
}

/// How record bytes are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// Memory maps on local file systems, positional reads on network file systems.
    #[default]
    Auto,
    /// Memory maps.
    Mmap,
    /// Positional reads.
    Pread,
}

/// Options for opening and creating a store.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) codec: Option<Codec>,
    pub(crate) level: Option<i32>,
    pub(crate) schema: Option<Vec<u8>>,
    pub(crate) read_only: bool,
    pub(crate) verify: Verify,
    pub(crate) io: Io,
    pub(crate) chunk_limit: u32,
    pub(crate) segment_bits: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            codec: None,
            level: None,
            schema: None,
            read_only: false,
            verify: Verify::default(),
            io: Io::default(),
            chunk_limit: CHUNK_LIMIT,
            segment_bits: SEGMENT_BITS,
        }
    }
}

impl Options {
    /// The defaults: codec `zstd` for a new store, checks always, memory maps where they are safe.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The codec of a new store; for an existing one, the codec that it must have.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = Some(codec);
        self
    }

    /// The zstd level of a new store (3 for `zstd`, 19 for `zstd_dict` by default); an existing store keeps its own.
    #[must_use]
    pub fn level(mut self, level: i32) -> Self {
        self.level = Some(level);
        self
    }

    /// The `schema.msgpack` that a new store begins with.
    #[must_use]
    pub fn schema(mut self, schema: Vec<u8>) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Refuse every write through this handle.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// When records are checked.
    #[must_use]
    pub fn verify(mut self, verify: Verify) -> Self {
        self.verify = verify;
        self
    }

    /// How record bytes are reached.
    #[must_use]
    pub fn io(mut self, io: Io) -> Self {
        self.io = io;
        self
    }

    /// The most bytes of a chunk file, at most (and by default) 2^32 - 1; smaller ones are for file systems and tests that
    /// want small files. It isn't recorded: each writer may choose.
    #[must_use]
    pub fn chunk_limit(mut self, bytes: u32) -> Self {
        self.chunk_limit = bytes;
        self
    }

    /// Entries of a table segment as a power of two. The format says 28; tests cross segments with less.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn segment_bits(mut self, bits: u32) -> Self {
        self.segment_bits = bits;
        self
    }
}
