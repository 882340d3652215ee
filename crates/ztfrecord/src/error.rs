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
}

/// With [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
