//! The limit of raw stores: records copied from a memory map to a reused buffer, and plain large writes to a file.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};

use crate::batch::{self, Batch};
use crate::copy::Way;
use crate::memory::Buffer;
use crate::truth::Truth;
use crate::{Fallible, Limit, team};

const WRITE_BYTES: usize = 8 << 20;
const TRIAL_BATCHES: usize = 12;

pub struct Raw {
    truth: Truth,
    path: PathBuf,
    /// The buffer, and the way found fastest for batches of this size.
    ready: Option<(usize, Buffer, Way)>,
}

impl Raw {
    pub fn new(truth: Truth, path: &Path) -> Self {
        Self { truth, path: path.to_owned(), ready: None }
    }

    /// Tries every way once for each size of batch: the limit is the best of them.
    fn prepare(&mut self, size: usize) -> Fallible<()> {
        if self.ready.as_ref().is_some_and(|(known, ..)| *known == size) {
            return Ok(());
        }
        let mut buffer = Buffer::new(batch::largest(&self.truth, size))?;
        let stride = (self.truth.len() / 7) | 1;
        let batches: Vec<Batch> = (0..TRIAL_BATCHES)
            .map(|number| {
                let places = (0..size).map(|i| (number * size + i) * stride % self.truth.len());
                Batch::new(&self.truth, places.collect())
            })
            .collect();
        let mut best: Option<(f64, Way)> = None;
        for way in Way::all(self.truth.bytes().len() / self.truth.len().max(1), team::cores()) {
            let seconds = gather(&self.truth, way, &batches, &mut buffer);
            let least = seconds.into_iter().fold(f64::INFINITY, f64::min);
            if best.is_none_or(|(known, _)| least < known) {
                best = Some((least, way));
            }
        }
        let (_, way) = best.ok_or("there are no records")?;
        eprintln!("limit raw: {way:?}");
        self.ready = Some((size, buffer, way));
        Ok(())
    }
}

fn gather(truth: &Truth, way: Way, batches: &[Batch], buffer: &mut Buffer) -> Vec<f64> {
    let destination = buffer.destination();
    team::timed(way.threads, batches.len(), way.blocks, |number, block| {
        way.copy(truth, &batches[number], block, destination);
    })
}

impl Limit for Raw {
    fn write(&mut self) -> Fallible<Value> {
        fs::create_dir_all(&self.path)?;
        let started = Instant::now();
        let mut file = File::create(self.path.join("records"))?;
        for piece in self.truth.bytes().chunks(WRITE_BYTES) {
            file.write_all(piece)?;
        }
        let seconds = started.elapsed().as_secs_f64();
        file.sync_all()?;
        let durable = started.elapsed().as_secs_f64();
        Ok(json!({ "seconds": seconds, "durable_seconds": durable, "bytes": self.truth.bytes().len() }))
    }

    fn check(&mut self, request: &Value) -> Fallible<Value> {
        let drawn = batch::drawn(&self.truth, request)?;
        let size = drawn.first().map_or(1, |batch| batch.indices.len());
        self.prepare(size)?;
        let (_, buffer, way) = self.ready.as_mut().ok_or("nothing was drawn")?;
        for batch in batch::in_order(&self.truth, size).chain(drawn) {
            gather(&self.truth, *way, std::slice::from_ref(&batch), buffer);
            batch::compare(&self.truth, &batch, &buffer.bytes()[..batch.bytes()])?;
        }
        Ok(json!({ "records": self.truth.len() }))
    }

    fn measure(&mut self, request: &Value) -> Fallible<Value> {
        let batches = batch::drawn(&self.truth, request)?;
        self.prepare(batches.first().map_or(1, |batch| batch.indices.len()))?;
        let (_, buffer, way) = self.ready.as_mut().ok_or("nothing was drawn")?;
        Ok(json!(gather(&self.truth, *way, &batches, buffer)))
    }
}
