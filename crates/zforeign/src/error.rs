//! What is wrong with foreign bytes.

/// A fault, without the file's name, which the caller knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A checksum of the framing differs.
    #[error(
        "the record at byte {offset}: the checksum of its {what} is {found:#010x}, expected {expected:#010x}"
    )]
    Checksum {
        /// Where the record's frame begins.
        offset: u64,
        /// "length" or "data".
        what: &'static str,
        /// Of the bytes that are there.
        found: u32,
        /// What the frame says.
        expected: u32,
    },
    /// A length that no file has.
    #[error(
        "the record at byte {offset}: it says that it has {length} bytes, which is more than any file has"
    )]
    Length {
        /// Where the record's frame begins.
        offset: u64,
        /// What the frame says.
        length: u64,
    },
    /// A record that is not a `tf.train.Example`.
    #[error("record {record}: expected a tf.train.Example, found {found}")]
    NotAnExample {
        /// Its number.
        record: u64,
        /// What is there instead.
        found: &'static str,
    },
    /// A feature that is of another kind than in other records.
    #[error("record {record}: feature {feature:?} is {found}, expected {expected}")]
    Kind {
        /// The record's number.
        record: u64,
        /// The feature's name.
        feature: String,
        /// The kind that it is.
        found: &'static str,
        /// The kind that it was before, or should be.
        expected: &'static str,
    },
    /// More features than can be streams.
    #[error("record {record}: more than {most} features of different names")]
    TooManyFeatures {
        /// The record's number.
        record: u64,
        /// How many may be.
        most: usize,
    },
    /// Ends of records that don't lie in the buffer, in order.
    #[error("the places of the records are not within the {length} bytes")]
    Places {
        /// Of the buffer.
        length: usize,
    },
    /// No header where one should be.
    #[error(
        "at byte {offset}: expected a header, or the empty block that ends an archive, found {found}; it is cut or damaged"
    )]
    TarHeader {
        /// Where.
        offset: u64,
        /// What is there instead.
        found: &'static str,
    },
    /// An extended header that can't be used.
    #[error("at byte {offset}: expected an extended header of a file, found {found}")]
    TarExtended {
        /// Where its data begins.
        offset: u64,
        /// What is there instead.
        found: &'static str,
    },
    /// A name or an extended header that is too long to be one.
    #[error("at byte {offset}: a name or an extended header of {size} bytes; expected at most {most}")]
    TarLong {
        /// Where its header begins.
        offset: u64,
        /// What that says.
        size: u64,
        /// How long it may be.
        most: u64,
    },
    /// A member that lies where none can.
    #[error("{name} has {size} bytes at byte {offset}; the archive is damaged")]
    TarPlace {
        /// The member's name, in quotes.
        name: String,
        /// What its header says.
        size: u64,
        /// Where that begins.
        offset: u64,
    },
    /// An archive that ends too early.
    #[error(
        "the archive is cut: its last file goes on up to byte {expected}, and the archive ends at byte {found}"
    )]
    TarCut {
        /// Where it should go on, at the least.
        expected: u64,
        /// Where it ends.
        found: u64,
    },
    /// Something behind the end of an archive.
    #[error("there is more after the end of the archive, at byte {offset}")]
    TarBehind {
        /// Where.
        offset: u64,
    },
    /// A member that holds no bytes of its own.
    #[error("{name} is {what}; expected regular files")]
    TarMember {
        /// Its name, in quotes.
        name: String,
        /// What it is.
        what: &'static str,
    },
    /// Two files of one name.
    #[error("sample {sample} has two files {extension}")]
    TarTwice {
        /// The sample's name, in quotes.
        sample: String,
        /// Their extension, in quotes.
        extension: String,
    },
}

/// A name in quotes.
pub(crate) fn shown(name: &[u8]) -> String {
    const MOST: usize = 300;
    let (text, dots) = name.split_at_checked(MOST).map_or((name, ""), |(text, _)| (text, "..."));
    format!("'{}{dots}'", String::from_utf8_lossy(text).escape_debug())
}

/// With [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
