//! The records that every engine stores: `truth.json` says where they lie in the memory-mapped file.

use std::fs::File;
use std::path::Path;

use memmap2::{Mmap, MmapOptions};
use serde_json::Value;

use crate::Fallible;

enum Starts {
    /// All records have this many bytes.
    Uniform(usize),
    /// Record i is `starts[i]..starts[i + 1]`.
    Listed(Vec<usize>),
}

pub struct Truth {
    data_at: usize,
    map: Mmap,
    starts: Starts,
    count: usize,
}

impl Truth {
    pub fn open(folder: &Path) -> Fallible<Self> {
        let facts: Value = serde_json::from_slice(&std::fs::read(folder.join("truth.json"))?)?;
        let number = |name: &str| {
            facts[name].as_u64().map(|n| n as usize).ok_or(format!("truth.json: {name} is no number"))
        };
        let (count, data_at) = (number("count")?, number("data_at")?);
        let starts = match facts["offsets"].as_str() {
            None => Starts::Uniform(number("record_bytes")?),
            Some(name) => {
                let (item, at) = (number("itemsize")?, number("offsets_at")?);
                let bytes = std::fs::read(folder.join(name))?;
                let offsets = bytes[at..].as_chunks().0.iter();
                Starts::Listed(offsets.map(|word| u64::from_le_bytes(*word) as usize * item).collect())
            }
        };
        let file = File::open(folder.join(facts["data"].as_str().ok_or("truth.json: data is no name")?))?;
        // SAFETY: the bench writes the file once and changes it no more while engines run.
        let map = unsafe { MmapOptions::new().populate().map(&file)? };
        let truth = Self { data_at, map, starts, count };
        match truth.range(count.saturating_sub(1)).end == truth.bytes().len() {
            true => Ok(truth),
            false => Err("truth.json does not fit its file".into()),
        }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn bytes(&self) -> &[u8] {
        &self.map[self.data_at..]
    }

    pub fn range(&self, index: usize) -> std::ops::Range<usize> {
        match &self.starts {
            Starts::Uniform(size) => index * size..(index + 1) * size,
            Starts::Listed(starts) => starts[index]..starts[index + 1],
        }
    }

    pub fn record(&self, index: usize) -> &[u8] {
        &self.bytes()[self.range(index)]
    }
}
