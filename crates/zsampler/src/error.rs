//! What can be asked of a sampler, a weighted one or a mixture that it has to refuse.

use crate::{MAX_BATCH_SIZE, MAX_BUCKETS, MAX_COMPONENTS, MAX_SCHEDULED, MAX_STEP, MAX_WEIGHTS};

/// A refused request. Every variant is misuse: a sampler does no I/O and nothing in it can fail by itself.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
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
    /// Nobody takes part.
    #[error("the world size must be at least 1, but it is 0")]
    EmptyWorld,
    /// A rank that the world does not have.
    #[error("rank {rank} is out of range for a world of {world_size}: ranks count from 0")]
    RankOutOfRange {
        /// The rank asked for.
        rank: u64,
        /// The number of ranks.
        world_size: u64,
    },
    /// There is nothing to draw in proportion to.
    #[error("a weighted sampler needs at least one weight, but there are 0")]
    NoWeights,
    /// A table of this many weights is not made.
    #[error("a weighted sampler takes at most {MAX_WEIGHTS} weights, but there are {found}")]
    TooManyWeights {
        /// The number of weights given.
        found: u64,
    },
    /// A weight that is no share of anything.
    #[error("weight {index} is {weight:?}, but a weight must be a finite number of at least 0")]
    BadWeight {
        /// Which weight, from 0.
        index: u64,
        /// What it is.
        weight: f64,
    },
    /// Nothing may be drawn.
    #[error("all {count} weights are 0, but at least one must be more")]
    ZeroWeights {
        /// The number of weights.
        count: u64,
    },
    /// Weights that are numbers alone but not together.
    #[error("the sum of the {count} weights exceeds {max:?}, the largest number there is", max = f64::MAX)]
    WeightsOverflow {
        /// The number of weights.
        count: u64,
    },
    /// There is nothing to mix.
    #[error("a mixture needs at least one component, but there are 0")]
    NoComponents,
    /// A mixture of this many data sets is not made.
    #[error("a mixture takes at most {MAX_COMPONENTS} components, but there are {found}")]
    TooManyComponents {
        /// The number of components given.
        found: u64,
    },
    /// Nobody says in which shares to mix.
    #[error("a mixture's schedule needs at least one entry, but there are 0")]
    NoSchedule,
    /// A schedule that would take too much memory.
    #[error(
        "a mixture's schedule takes at most {MAX_SCHEDULED} weights in all, but there are {entries} entries of \
         {components} weights"
    )]
    ScheduleTooLong {
        /// The number of entries.
        entries: u64,
        /// The number of components.
        components: u64,
    },
    /// The batches before the first entry have no shares.
    #[error("a mixture's schedule must begin at step 0, but its first entry is for step {step}")]
    ScheduleStart {
        /// The step of the first entry.
        step: u64,
    },
    /// Entries that are not in the order of their steps.
    #[error(
        "the steps of a mixture's schedule must rise, but entry {entry} is for step {step} and the one before it for step \
         {before}"
    )]
    ScheduleOrder {
        /// Which entry, from 0.
        entry: u64,
        /// Its step.
        step: u64,
        /// The step of the entry before it.
        before: u64,
    },
    /// An entry that doesn't say for each component what its share is.
    #[error("the weights from step {step} on must be {components}, one a component, but there are {found}")]
    WrongShares {
        /// The step of the entry.
        step: u64,
        /// The number of components.
        components: u64,
        /// The number of weights given.
        found: u64,
    },
    /// A share that is none.
    #[error(
        "the weight of component {component} from step {step} on is {weight:?}, but a weight must be a finite number of at \
         least 0"
    )]
    BadShare {
        /// The step of the entry.
        step: u64,
        /// Which component, from 0.
        component: u64,
        /// Its weight.
        weight: f64,
    },
    /// An entry under which nothing may be drawn.
    #[error("all {count} weights from step {step} on are 0, but at least one must be more")]
    ZeroShares {
        /// The step of the entry.
        step: u64,
        /// The number of components.
        count: u64,
    },
    /// Weights of an entry that are numbers alone but not together.
    #[error(
        "the sum of the {count} weights from step {step} on exceeds {max:?}, the largest number there is", max = f64::MAX
    )]
    SharesOverflow {
        /// The step of the entry.
        step: u64,
        /// The number of components.
        count: u64,
    },
    /// A component that is to give records and has none.
    #[error("component {component} has weight {weight:?} from step {step} on, but its length is 0")]
    EmptyComponent {
        /// The step of the entry.
        step: u64,
        /// Which component, from 0.
        component: u64,
        /// Its weight.
        weight: f64,
    },
    /// Batches that are all to hold the same counts, of shares that are no counts.
    #[error(
        "component {component} has weight {weight:?} from step {step} on, which makes {product:?} records of a batch of \
         {batch_size}; exact shares need a whole number of at least 1"
    )]
    NotWhole {
        /// The step of the entry.
        step: u64,
        /// Which component, from 0.
        component: u64,
        /// Its weight.
        weight: f64,
        /// The records in a batch.
        batch_size: u64,
        /// How many of them the weight makes.
        product: f64,
    },
    /// There is no bucket to draw from.
    #[error("there must be at least one bucket, but there are 0")]
    NoBuckets,
    /// Buckets of this number are not made.
    #[error("there are at most {MAX_BUCKETS} buckets, but {found} were given")]
    TooManyBuckets {
        /// The number of buckets given.
        found: u64,
    },
    /// A bucket of which no batch could be made.
    #[error("bucket {bucket} has {records} records, but its batches have {batch_size}")]
    ShortBucket {
        /// Which bucket, from 0.
        bucket: u64,
        /// The records in it.
        records: u64,
        /// The records in each of its batches.
        batch_size: u64,
    },
    /// More records than numbers.
    #[error("the buckets have more than 2^64 - 1 records in all")]
    BucketsOverflow,
    /// Buckets are passed through, not drawn from independently.
    #[error("buckets have no iid order: known are 0 (sequential) and 2 (cyclic)")]
    IidBuckets,
    /// Destinations that do not belong together.
    #[error("sources and indices must be of one length, but they hold {sources} and {indices}")]
    UnequalDestinations {
        /// The places in the destination of sources.
        sources: u64,
        /// The places in the destination of indices.
        indices: u64,
    },
}
