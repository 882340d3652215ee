//! What can be asked of a sampler that it has to refuse.

use crate::{MAX_BATCH_SIZE, MAX_STEP};

/// A refused request. Every variant is misuse: a sampler does no I/O and nothing in it can fail by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no record to draw.
    #[error("a sampler needs at least one record, but the length is 0")]
    EmptyLength,
    /// A batch must hold an index.
    #[error("the batch size must be at least 1, but it is 0")]
    EmptyBatch,
    /// A batch of this size fits no address space.
    #[error("the batch size must be at most {MAX_BATCH_SIZE}, but it is {batch_size}")]
    BatchTooLarge {
        /// The batch size asked for.
        batch_size: u64,
    },
    /// In cyclic mode a batch never repeats an index, so it cannot be larger than the index space.
    #[error(
        "a cyclic batch never repeats an index, so the batch size {batch_size} cannot exceed the length {length}"
    )]
    BatchExceedsLength {
        /// The batch size asked for.
        batch_size: u64,
        /// The number of records.
        length: u64,
    },
    /// A mode's number that stands for no mode.
    #[error("unknown sampler mode {mode}: known are 0 (sequential), 1 (iid) and 2 (cyclic)")]
    UnknownMode {
        /// The number given.
        mode: i64,
    },
    /// A step past the last one.
    #[error("step {step} is past the last step, {MAX_STEP}")]
    StepTooLarge {
        /// The step asked for.
        step: u64,
    },
    /// The record is drawn again only past the last step.
    #[error("record {index} is not drawn between step {step} and the last step, {MAX_STEP}")]
    NeverDrawn {
        /// The record asked for.
        index: u64,
        /// The step to look from.
        step: u64,
    },
    /// An index that no batch can hold.
    #[error("index {index} is out of range for a sampler over {length} records")]
    IndexOutOfRange {
        /// The index asked for.
        index: u64,
        /// The number of records.
        length: u64,
    },
    /// A destination that is not one batch long.
    #[error("the destination must hold one batch of {batch_size} indices, but it holds {found}")]
    WrongDestination {
        /// The indices in a batch.
        batch_size: u64,
        /// The indices that the destination holds.
        found: u64,
    },
    /// A part of a batch that reaches beyond its end.
    #[error("{count} indices from place {start} reach beyond a batch of {batch_size}")]
    RangeBeyondBatch {
        /// The first place asked for.
        start: u64,
        /// The number of places asked for.
        count: u64,
        /// The indices in a batch.
        batch_size: u64,
    },
}
