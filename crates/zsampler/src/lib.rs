//! Index batches as a pure function of (seed, step).
//!
//! A [`Sampler`] turns a step number into the batch of record indices that a training step reads. It holds a
//! handful of integers, whatever the number of records, and nothing it does depends on what was drawn before:
//! resuming at a step is [`Sampler::seek`], and any batch can be had alone by [`Sampler::batch_at`].
//!
//! ```
//! use zsampler::{Mode, Sampler};
//!
//! let mut sampler = Sampler::new(10, 4, Mode::Cyclic, 42)?;
//! let first = sampler.next_batch();
//! let second = sampler.next_batch();
//!
//! // Within a cycle no record comes twice; two records are left over here, others in the next cycle.
//! let mut seen = [first, second.clone()].concat();
//! seen.sort_unstable();
//! seen.dedup();
//! assert_eq!(seen.len(), 8);
//!
//! // Resuming is a seek.
//! sampler.seek(1)?;
//! assert_eq!(sampler.next_batch(), second);
//!
//! // When is record 7 drawn next, and at which place of its batch?
//! if let Some((step, place)) = sampler.next_draw(7, 2)? {
//!     assert!(sampler.batch_at(step).iter().zip(0..).any(|(&index, j)| (index, j) == (7, place)));
//! }
//! # Ok::<(), zsampler::Error>(())
//! ```
//!
//! Beside it stand [`Weighted`], which draws in proportion to weights, [`Mixture`], which draws from several data
//! sets by share, and [`Bucketed`], whose batches are each of one bucket. They too are functions of (seed, step). [`share`] is the part of a batch that a rank takes.
//!
//! The exact sequence is a contract, numbered by [`ORDER_VERSION`] and frozen in `golden/`. What it is, and why,
//! is told in `docs/decisions/0002-sampler-order.md`, for weights and mixtures in `0012-weights-and-mixtures.md`,
//! for buckets in `0016-buckets.md`.

mod alias;
mod bucketed;
mod error;
mod iid;
mod lanes;
mod mixture;
mod mode;
mod order;
mod permute;
mod quota;
mod rng;
mod sampler;
mod scattered;
mod shard;
mod slots;
mod weighted;
mod weights;
mod wide;

pub use bucketed::{Bucketed, MAX_BUCKETS};
pub use error::Error;
pub use mixture::{MAX_COMPONENTS, MAX_SCHEDULED, Mixture};
pub use mode::Mode;
pub use order::ORDER_VERSION;
pub use sampler::{MAX_BATCH_SIZE, MAX_STEP, Sampler};
pub use shard::share;
pub use weighted::{MAX_WEIGHTS, Weighted};
