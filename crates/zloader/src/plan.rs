//! What a step is made of, and what came of it.

use std::sync::Arc;
use std::time::Instant;

use crate::draws::{Drawn, Draws};
use crate::error::{Error, Result, caught};
use crate::gather::{Batch, Stream};
use crate::pipeline::Make;

/// Which records a step reads, and of which streams.
#[derive(Debug, Clone)]
pub struct Plan {
    draws: Arc<Draws>,
    streams: Vec<Stream>,
    /// Of each stream's stores when the plan was made.
    generations: Vec<Vec<u32>>,
}

/// What came of a step.
#[derive(Debug)]
pub struct Made {
    /// The step.
    pub step: u64,
    /// What it reads; nothing if drawing failed.
    pub drawn: Drawn,
    /// One batch a stream, or what went wrong.
    pub batches: std::result::Result<Vec<Batch>, Box<Failure>>,
    /// How long drawing and gathering took.
    pub seconds: f64,
}

/// Why a step has no batches.
#[derive(Debug)]
pub struct Failure {
    /// The number of the stream that failed, if it was one.
    pub stream: Option<usize>,
    /// What it failed with.
    pub error: Error,
}

impl Made {
    pub(crate) fn failed(step: u64, stream: Option<usize>, error: Error) -> Self {
        Self {
            step,
            drawn: Drawn::default(),
            batches: Err(Box::new(Failure { stream, error })),
            seconds: 0.0,
        }
    }

    /// Bytes that its batches hold.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.batches.as_ref().map_or(0, |batches| {
            batches.iter().fold(0_u64, |bytes, batch| bytes.saturating_add(batch.bytes()))
        })
    }
}

impl Plan {
    /// A plan.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a stream that has not one store for each component that is drawn from; [`Error::Store`] for a
    /// store that is closed.
    pub fn new(draws: Arc<Draws>, streams: Vec<Stream>) -> Result<Self> {
        let expected = draws.components();
        for (number, stream) in streams.iter().enumerate() {
            let found = stream.stores().len();
            if found != expected {
                let why = format!("stream {number} has {found} stores, but {expected} are drawn from");
                return Err(Error::InvalidArgument(why));
            }
        }
        let generations = streams.iter().map(generations).collect::<Result<_>>()?;
        Ok(Self { draws, streams, generations })
    }

    /// What comes of a step, made on this thread.
    #[must_use]
    pub fn make(&self, step: u64) -> Made {
        let started = Instant::now();
        let drawn = match self.draws.draw(step) {
            Ok(drawn) => drawn,
            Err(error) => return Made::failed(step, None, error),
        };
        let gather = |(number, stream): (usize, &Stream)| {
            caught(|| stream.gather(&drawn))
                .map_err(|error| Box::new(Failure { stream: Some(number), error }))
        };
        let batches = self.streams.iter().enumerate().map(gather).collect();
        // Looked at last: streams are read one after another, and a delete in between would part their records.
        let batches = self.check_unmoved().and(batches);
        Made { step, drawn, batches, seconds: started.elapsed().as_secs_f64() }
    }
}

impl Plan {
    /// [`zrecord::Error::Stale`] if records of a store were moved since the plan was made: a step would not be what it was.
    fn check_unmoved(&self) -> std::result::Result<(), Box<Failure>> {
        for (number, (stream, expected)) in self.streams.iter().zip(&self.generations).enumerate() {
            let failure = |error| Box::new(Failure { stream: Some(number), error });
            for (store, &expected) in stream.stores().iter().zip(expected) {
                let found = store.generation().map_err(|error| failure(error.into()))?;
                if found != expected {
                    let path = store.path().to_path_buf();
                    return Err(failure(zrecord::Error::Stale { path, found, expected }.into()));
                }
            }
        }
        Ok(())
    }
}

fn generations(stream: &Stream) -> Result<Vec<u32>> {
    stream.stores().iter().map(|store| Ok(store.generation()?)).collect()
}

impl Make for Plan {
    fn make(&self, step: u64) -> Made {
        self.make(step)
    }

    fn expected(&self) -> Option<u64> {
        let count = self.draws.count();
        self.streams
            .iter()
            .try_fold(0_u64, |bytes, stream| Some(bytes.saturating_add(stream.expected(count)?)))
    }
}
