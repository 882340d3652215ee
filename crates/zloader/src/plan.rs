//! What a step is made of, and what came of it.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::draws::{Drawn, Draws};
use crate::error::{Error, Result, caught};
use crate::gather::{Batch, Stream};
use crate::pipeline::Make;

/// How long a step waits for streams that are being deleted from.
const PATIENCE: Duration = Duration::from_secs(10);

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
        let batches = self.gather(&drawn);
        Made { step, drawn, batches, seconds: started.elapsed().as_secs_f64() }
    }

    /// The batches of all streams, of one moment.
    ///
    /// A handle that is read here may be deleted from meanwhile, stream after stream. So with several streams their generations are looked
    /// at before and after: all must have moved on alike since the plan was made, and none meanwhile.
    fn gather(&self, drawn: &Drawn) -> std::result::Result<Vec<Batch>, Box<Failure>> {
        let gather = |(number, stream): (usize, &Stream)| {
            caught(|| stream.gather(drawn)).map_err(|error| Box::new(Failure { stream: Some(number), error }))
        };
        let all = || self.streams.iter().enumerate().map(gather).collect();
        if self.streams.len() < 2 {
            return all();
        }
        let patience = Instant::now() + PATIENCE;
        loop {
            let before = self.moved()?;
            let parted = parted(&before);
            if parted.is_none() {
                let batches = all();
                if self.moved()? == before {
                    return batches;
                }
            }
            if Instant::now() > patience {
                return Err(self.apart(parted.unwrap_or(0)));
            }
            thread::sleep(Duration::from_micros(200));
        }
    }

    /// How often records of each store were moved since the plan was made.
    fn moved(&self) -> std::result::Result<Vec<Vec<u32>>, Box<Failure>> {
        let of_stream = |(number, (stream, made)): (usize, (&Stream, &Vec<u32>))| {
            let now =
                generations(stream).map_err(|error| Box::new(Failure { stream: Some(number), error }))?;
            Ok(now.iter().zip(made).map(|(now, made)| now.wrapping_sub(*made)).collect())
        };
        self.streams.iter().zip(&self.generations).enumerate().map(of_stream).collect()
    }

    /// Streams stayed parted, or went on moving, for too long.
    fn apart(&self, number: usize) -> Box<Failure> {
        let path = self.streams.get(number).and_then(|stream| stream.stores().first());
        let path = path.map(|store| store.path().display().to_string()).unwrap_or_default();
        let seconds = PATIENCE.as_secs();
        let why = format!(
            "{path}: records of the streams were moved apart (one was deleted from or compacted alone), and for {seconds} s nobody brought them together again; if they still belong together, make the loader anew"
        );
        Box::new(Failure { stream: Some(number), error: Error::InvalidArgument(why) })
    }
}

/// The first stream whose records were moved another number of times than the first one's.
fn parted(moved: &[Vec<u32>]) -> Option<usize> {
    let first = moved.first()?;
    moved.iter().position(|stream| stream != first)
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
