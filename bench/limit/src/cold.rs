//! The limit of cold reads: positional reads from many threads, so that the disk's queue is full.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::batch::{self, Batch};
use crate::memory::{Buffer, Destination};
use crate::truth::Truth;
use crate::{Fallible, Limit};

/// Reads in flight. More did not get more out of any disk tried.
const READERS: usize = 64;

const WRITE_BYTES: usize = 8 << 20;

pub struct Cold {
    truth: Truth,
    /// A copy of its own: a page that any engine has mapped does not leave the page cache.
    copy: PathBuf,
    buffer: Option<Buffer>,
}

impl Cold {
    pub fn new(truth: Truth, path: &Path) -> Self {
        Self { truth, copy: path.join("records"), buffer: None }
    }

    fn gather(&mut self, batches: &[Batch]) -> Fallible<Vec<f64>> {
        let size = batches.iter().map(Batch::bytes).max().unwrap_or(0);
        if self.buffer.as_ref().is_none_or(|buffer| buffer.bytes().len() < size) {
            self.buffer = Some(Buffer::new(size)?);
        }
        let destination = self.buffer.as_mut().ok_or("there is no buffer")?.destination();
        let file = File::open(&self.copy)?;
        advise(&file, libc::POSIX_FADV_RANDOM)?;
        let (start, end) = (Barrier::new(READERS + 1), Barrier::new(READERS + 1));
        let next: Vec<AtomicUsize> = batches.iter().map(|_| AtomicUsize::new(0)).collect();
        let failed = AtomicUsize::new(0);
        let seconds = thread::scope(|scope| {
            for _ in 0..READERS {
                scope.spawn(|| {
                    for (batch, next) in batches.iter().zip(&next) {
                        start.wait();
                        let done = read(&self.truth, &file, batch, next, destination);
                        failed.fetch_add(done.is_err().into(), Ordering::Relaxed);
                        end.wait();
                    }
                });
            }
            let one = |_| {
                let started = Instant::now();
                start.wait();
                end.wait();
                started.elapsed().as_secs_f64()
            };
            batches.iter().map(one).collect()
        });
        match failed.into_inner() {
            0 => Ok(seconds),
            count => Err(format!("{count} threads could not read").into()),
        }
    }
}

fn read(
    truth: &Truth,
    file: &File,
    batch: &Batch,
    next: &AtomicUsize,
    buffer: Destination,
) -> std::io::Result<()> {
    loop {
        let position = next.fetch_add(1, Ordering::Relaxed);
        let Some(&index) = batch.indices.get(position) else { return Ok(()) };
        let range = truth.range(index);
        // SAFETY: records have places of their own, and each position is taken once.
        let target = unsafe { buffer.slice(batch.starts[position], range.len()) };
        file.read_exact_at(target, range.start as u64)?;
    }
}

fn advise(file: &File, advice: i32) -> Fallible<()> {
    // SAFETY: the descriptor is open; a length of 0 means the whole file.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) } {
        0 => Ok(()),
        code => Err(std::io::Error::from_raw_os_error(code).into()),
    }
}

impl Limit for Cold {
    fn write(&mut self) -> Fallible<Value> {
        fs::create_dir_all(self.copy.parent().ok_or("there is no folder to write to")?)?;
        let mut file = File::create(&self.copy)?;
        for piece in self.truth.bytes().chunks(WRITE_BYTES) {
            file.write_all(piece)?;
        }
        Ok(Value::Null)
    }

    fn check(&mut self, request: &Value) -> Fallible<Value> {
        for batch in batch::drawn(&self.truth, request)? {
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

    fn drop_cache(&mut self) -> Fallible<Value> {
        let file = File::open(&self.copy)?;
        file.sync_all()?;
        advise(&file, libc::POSIX_FADV_DONTNEED)?;
        Ok(Value::Null)
    }
}
