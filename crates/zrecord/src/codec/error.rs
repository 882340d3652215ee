//! What can fail in a codec. The store adds the path and the record.

use super::Codec;

/// Why bytes could not be encoded, decoded or trained on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// No codec has this name.
    #[error("there is no codec `{found}`, expected `raw`, `zstd` or `zstd_dict`")]
    UnknownName {
        /// The name that was asked for.
        found: String,
    },
    /// The codec does not compress.
    #[error("the codec `{codec}` has no levels, but level {found} was asked for")]
    NoLevels {
        /// The codec.
        codec: Codec,
        /// The level that was asked for.
        found: i32,
    },
    /// The codec has levels, but not this one.
    #[error("the codec `{codec}` has no level {found}, expected one of {lowest} to {highest}")]
    LevelOutOfRange {
        /// The codec.
        codec: Codec,
        /// The level that was asked for.
        found: i32,
        /// The lowest level there is.
        lowest: i32,
        /// The highest level there is.
        highest: i32,
    },
    /// The codec works with a dictionary only.
    #[error("the codec `{codec}` needs a dictionary, found none")]
    MissingDictionary {
        /// The codec.
        codec: Codec,
    },
    /// The codec works without a dictionary only.
    #[error("the codec `{codec}` takes no dictionary, found one")]
    UnexpectedDictionary {
        /// The codec.
        codec: Codec,
    },
    /// The bytes do not begin as a trained zstd dictionary does.
    #[error("the dictionary of {bytes} bytes is no zstd dictionary: its magic number or its id is missing")]
    NotADictionary {
        /// How many bytes were given.
        bytes: usize,
    },
    /// The bytes begin as a zstd dictionary, but zstd refuses them.
    #[error("zstd can't load the dictionary of {bytes} bytes: it is damaged, or memory ran out")]
    UnusableDictionary {
        /// How many bytes were given.
        bytes: usize,
    },
    /// The record is longer than a record may be.
    #[error("the record has {found} bytes, a record has at most {limit}")]
    RecordTooLong {
        /// Bytes of the record.
        found: usize,
        /// The most bytes of a record.
        limit: u64,
    },
    /// No memory for a buffer or a context.
    #[error("memory ran out for {purpose}")]
    OutOfMemory {
        /// What the memory was for.
        purpose: &'static str,
    },
    /// zstd failed to compress.
    #[error("zstd can't compress the record: {reason}")]
    Compress {
        /// zstd's words.
        reason: &'static str,
    },
    /// The stored bytes are no frame, or a damaged one.
    #[error("the stored bytes are no intact zstd frame: {reason}")]
    Damaged {
        /// zstd's words.
        reason: &'static str,
    },
    /// The frame ends before the stored bytes do.
    #[error("the zstd frame ends after {frame} bytes, but {found} bytes are stored")]
    TrailingBytes {
        /// Bytes of the frame.
        frame: usize,
        /// Bytes that are stored.
        found: usize,
    },
    /// The content has another length than the record.
    #[error("the stored bytes hold a record of {found} bytes, expected {expected}")]
    WrongLength {
        /// Bytes of the content.
        found: u64,
        /// Bytes of the record.
        expected: usize,
    },
    /// The content is longer than the record; the frame does not say by how much.
    #[error("the stored bytes hold a record of more than the expected {expected} bytes")]
    TooLong {
        /// Bytes of the record.
        expected: usize,
    },
    /// The frame refers to another dictionary, or to one where there is none (`expected` is 0).
    #[error("the zstd frame needs the dictionary with id {found}, the store's has id {expected}")]
    WrongDictionary {
        /// The frame's dictionary id.
        found: u32,
        /// The id of the store's dictionary, 0 if it has none.
        expected: u32,
    },
    /// One of several records that were to be decoded can't be.
    #[error("record {record}: {source}")]
    InRecord {
        /// Its number.
        record: u64,
        /// Why.
        source: Box<CodecError>,
    },
    /// The sizes do not describe the samples.
    #[error("the sample sizes sum to {found} bytes, expected the {expected} bytes of the samples")]
    SampleSizes {
        /// The sum of the sizes.
        found: u128,
        /// Bytes of all samples.
        expected: usize,
    },
    /// Too little to train on.
    #[error(
        "training a dictionary needs at least {least_samples} records that are not empty, with {least_bytes} bytes \
         in the first three quarters of them: found {samples} records, with {bytes} bytes there"
    )]
    TooFewSamples {
        /// Samples that are not empty.
        samples: usize,
        /// Bytes of the first three quarters of them.
        bytes: u64,
        /// The fewest samples.
        least_samples: usize,
        /// The fewest bytes.
        least_bytes: u64,
    },
    /// Too much to train on.
    #[error("a dictionary can be trained on less than {limit} bytes and records, found {found}")]
    TooManySamples {
        /// Bytes of all samples, or their number.
        found: usize,
        /// zstd's limit for both.
        limit: u32,
    },
    /// The dictionary would be too small to be one.
    #[error("a dictionary takes at least {least} bytes, but its target is {found}")]
    TargetTooSmall {
        /// The target that was asked for.
        found: usize,
        /// The smallest target.
        least: usize,
    },
    /// zstd found nothing to put into a dictionary.
    #[error("zstd can't train a dictionary on these samples: {reason}")]
    Training {
        /// zstd's words.
        reason: &'static str,
    },
}
