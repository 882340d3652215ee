//! The batches of a request: which records, and where each goes in the buffer.

use std::fs;

use serde_json::Value;

use crate::Fallible;
use crate::truth::Truth;

pub struct Batch {
    pub indices: Vec<usize>,
    /// Where each record starts in the packed batch; the last entry is its size.
    pub starts: Vec<usize>,
}

impl Batch {
    pub fn new(truth: &Truth, indices: Vec<usize>) -> Self {
        let mut starts = vec![0];
        let mut end = 0;
        for &index in &indices {
            end += truth.range(index).len();
            starts.push(end);
        }
        Self { indices, starts }
    }

    pub fn bytes(&self) -> usize {
        self.starts[self.indices.len()]
    }
}

/// The request's first `batches` batches of the file that it names.
pub fn drawn(truth: &Truth, request: &Value) -> Fallible<Vec<Batch>> {
    let number = |name: &str| request[name].as_u64().ok_or(format!("the request has no number {name}"));
    let (size, count) = (number("batch")? as usize, number("batches")? as usize);
    let file = request["draws"].as_str().ok_or("the request names no draws")?;
    let bytes = fs::read(file)?;
    let words: Vec<usize> =
        bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word) as usize).collect();
    let batches: Vec<Batch> =
        words.chunks_exact(size).take(count).map(|chunk| Batch::new(truth, chunk.to_vec())).collect();
    match batches.len() == count {
        true => Ok(batches),
        false => Err(format!("{file} holds {} batches, not {count}", batches.len()).into()),
    }
}

/// Every record once in order, in batches.
pub fn in_order(truth: &Truth, size: usize) -> impl Iterator<Item = Batch> {
    (0..truth.len())
        .step_by(size)
        .map(move |start| Batch::new(truth, (start..truth.len().min(start + size)).collect()))
}

/// The largest batch of `size` records that there can be.
pub fn largest(truth: &Truth, size: usize) -> usize {
    size * (0..truth.len()).map(|index| truth.range(index).len()).max().unwrap_or(0)
}

/// Whether the packed batch in `buffer` is what was stored.
pub fn compare(truth: &Truth, batch: &Batch, buffer: &[u8]) -> Fallible<()> {
    for (&index, &start) in batch.indices.iter().zip(&batch.starts) {
        let want = truth.record(index);
        if buffer[start..start + want.len()] != *want {
            return Err(format!("a wrong answer for record {index}").into());
        }
    }
    Ok(())
}
