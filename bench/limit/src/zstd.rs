//! The limit of compressed stores: libzstd alone, at the level of "zstd" stores, from memory into a reused buffer.

use std::cell::RefCell;
use std::sync::Mutex;
use std::time::Instant;

use serde_json::{Value, json};
use zstd_safe::{CCtx, DCtx, compress_bound, get_error_name};

use crate::batch::{self, Batch};
use crate::copy::part;
use crate::memory::Buffer;
use crate::truth::Truth;
use crate::{Fallible, Limit, team};

const LEVEL: i32 = 3;
const ENCODED_AT_ONCE: usize = 1 << 20;

thread_local! {
    static ENCODER: RefCell<(CCtx<'static>, Vec<u8>)> = RefCell::new((CCtx::create(), Vec::new()));
    static DECODER: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

pub struct Zstd {
    truth: Truth,
    frames: Frames,
    buffer: Option<Buffer>,
}

/// Record i is `bytes[starts[i]..starts[i + 1]]`.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    starts: Vec<usize>,
}

impl Frames {
    fn frame(&self, index: usize) -> &[u8] {
        &self.bytes[self.starts[index]..self.starts[index + 1]]
    }
}

impl Zstd {
    pub fn new(truth: Truth) -> Self {
        Self { truth, frames: Frames::default(), buffer: None }
    }

    fn blocks(&self) -> usize {
        self.truth.bytes().len().div_ceil(ENCODED_AT_ONCE).clamp(1, self.truth.len().max(1))
    }

    /// Encodes everything on all cores; `keep` gets each frame and its block, a block's frames in order.
    fn encode(&self, keep: impl Fn(usize, &[u8]) + Sync) -> f64 {
        let blocks = self.blocks();
        let started = Instant::now();
        team::timed(team::cores(), 1, blocks, |_, block| {
            ENCODER.with_borrow_mut(|(context, scratch)| {
                for index in part(self.truth.len(), block, blocks) {
                    let record = self.truth.record(index);
                    scratch.clear();
                    scratch.reserve(compress_bound(record.len()));
                    let done = context.compress(scratch, record, LEVEL);
                    done.map_err(get_error_name).expect("the scratch holds any frame");
                    keep(block, scratch);
                }
            });
        });
        started.elapsed().as_secs_f64()
    }

    fn collect(&self) -> Frames {
        let blocks: Vec<Mutex<(Vec<u8>, Vec<usize>)>> =
            (0..self.blocks()).map(|_| Mutex::default()).collect();
        self.encode(|block, frame| {
            let mut kept = blocks[block].lock().expect("no thread panics");
            kept.0.extend_from_slice(frame);
            kept.1.push(frame.len());
        });
        let mut frames = Frames { bytes: Vec::new(), starts: vec![0] };
        for block in blocks {
            let (bytes, lengths) = block.into_inner().expect("no thread panics");
            frames.bytes.extend_from_slice(&bytes);
            for length in lengths {
                frames.starts.push(frames.starts[frames.starts.len() - 1] + length);
            }
        }
        frames
    }

    fn gather(&mut self, batches: &[Batch]) -> Fallible<Vec<f64>> {
        let size = batches.iter().map(Batch::bytes).max().unwrap_or(0);
        if self.buffer.as_ref().is_none_or(|buffer| buffer.bytes().len() < size) {
            self.buffer = Some(Buffer::new(size)?);
        }
        let destination = self.buffer.as_mut().ok_or("there is no buffer")?.destination();
        let (truth, frames) = (&self.truth, &self.frames);
        let blocks = 16 * team::cores();
        Ok(team::timed(team::cores(), batches.len(), blocks, |number, block| {
            let batch = &batches[number];
            DECODER.with_borrow_mut(|context| {
                for position in part(batch.indices.len(), block, blocks) {
                    let index = batch.indices[position];
                    // SAFETY: records have places of their own, and each position belongs to one block.
                    let target =
                        unsafe { destination.slice(batch.starts[position], truth.range(index).len()) };
                    let done = context.decompress(target, frames.frame(index));
                    done.map_err(get_error_name).expect("the frame was just made");
                }
            });
        }))
    }
}

impl Limit for Zstd {
    fn write(&mut self) -> Fallible<Value> {
        let seconds = self.encode(|_, _| ());
        self.frames = self.collect();
        Ok(json!({ "seconds": seconds, "durable_seconds": seconds, "bytes": self.frames.bytes.len() }))
    }

    fn check(&mut self, request: &Value) -> Fallible<Value> {
        let drawn = batch::drawn(&self.truth, request)?;
        let size = drawn.first().map_or(1, |batch| batch.indices.len());
        let batches: Vec<Batch> = batch::in_order(&self.truth, size).chain(drawn).collect();
        for batch in batches {
            self.gather(std::slice::from_ref(&batch))?;
            let buffer = self.buffer.as_ref().ok_or("there is no buffer")?;
            batch::compare(&self.truth, &batch, &buffer.bytes()[..batch.bytes()])?;
        }
        Ok(json!({ "records": self.truth.len() }))
    }

    fn measure(&mut self, request: &Value) -> Fallible<Value> {
        let batches = batch::drawn(&self.truth, request)?;
        Ok(json!(self.gather(&batches)?))
    }
}
