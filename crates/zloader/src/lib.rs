//! Batches of records, made ahead by threads.
//!
//! A [`Plan`] is what a step is made of: which records it reads ([`Draws`]) and from where ([`Stream`]). A [`Pipeline`] has threads make the
//! steps in order, a bounded number of them ahead, and hands them out; what a step gives depends on the step alone.
//!
//! ```
//! use std::sync::Arc;
//! use zloader::{Batch, Draws, Limits, Pipeline, Plan, Rank, Stream, Taken};
//! use zrecord::{Codec, Options, Records, Store};
//! use zsampler::{Mode, Sampler};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let home = tempfile::tempdir()?;
//! let store = Store::create(&home.path().join("s"), Options::new().codec(Codec::Raw))?;
//! store.append(&Records::rows(b"aabbccdd", 4)?, None)?;
//!
//! let draws = Draws::sampled(Sampler::new(4, 2, Mode::Cyclic, 42)?, Rank::ALONE, None)?;
//! let plan = Plan::new(Arc::new(draws), vec![Stream::Rows { stores: vec![Arc::new(store)], row: 2 }])?;
//! let pipeline = Pipeline::start(plan, Limits { workers: 1, ahead: 2, bytes: 1 << 30 }, 0)?;
//! for step in 0..10 {
//!     let Taken::Made(made) = pipeline.take(step, None)? else { break };
//!     let [Batch::Rows(memory)] = &made.batches.map_err(|failure| failure.error)?[..] else { break };
//!     assert_eq!(memory.len(), 4);
//! }
//! # Ok(())
//! # }
//! ```

mod draws;
mod error;
mod gather;
mod memory;
mod pad;
mod pipeline;
mod plan;
mod table;

pub use draws::{Drawn, Draws, Rank};
pub use error::{Error, Result};
pub use gather::{Batch, Packed, Stream, pack};
pub use memory::{ALIGNMENT, Held, Memory, held};
pub use pad::{Side, pad};
pub use pipeline::{Limits, Pipeline, Taken};
pub use plan::{Failure, Made, Plan};
pub use table::Table;
