//! Space in use: on disk, and of address space.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::CHUNK_LIMIT;
use crate::open::Open;
use crate::rows;
use crate::storage::{Mapped, resident};

/// What a store holds, and what a compaction could give back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Live records.
    pub records: u64,
    /// Bytes that the live records take in the chunks, as stored (compressed).
    pub live_bytes: u64,
    /// Bytes of all chunks, live or not.
    pub chunk_bytes: u64,
    /// Bytes of the chunks that belong to no live record: what a compaction gives back at most. A chunk can end with a little
    /// that it can't, since no record straddles chunks.
    pub reclaimable: u64,
}

/// Read the whole record table, in pieces, and ask each chunk file for its length.
pub(crate) fn stats(open: &Open) -> Result<Stats> {
    let header = open.header();
    let mut live_bytes = 0u64;
    let mut ends: HashMap<u32, u64> = HashMap::new();
    rows::scan(open, header.length, |_, entry| {
        live_bytes = live_bytes.saturating_add(entry.stored.into());
        if entry.stored > 0 {
            let end = ends.entry(entry.chunk).or_default();
            *end = entry.end().max(*end);
        }
        Ok(())
    })?;
    let mut chunk_bytes = u64::from(header.tail_offset);
    // A chunk of which no record is left need not exist; the header can name any number of them.
    let there = open.chunks.numbers()?.into_iter().filter_map(|number| u32::try_from(number).ok());
    let chunks: BTreeSet<u32> =
        there.chain(ends.keys().copied()).filter(|&chunk| chunk < header.tail_chunk).collect();
    for chunk in chunks {
        let length = open.chunks.length(chunk.into())?;
        // A plain version 3 writer makes its chunk files 4 GiB long from the start, as holes: there the records tell.
        let preallocated = length >= u64::from(CHUNK_LIMIT);
        chunk_bytes += if preallocated { ends.get(&chunk).map_or(0, |&end| end.min(length)) } else { length };
    }
    Ok(Stats {
        records: header.length,
        live_bytes,
        chunk_bytes,
        reclaimable: chunk_bytes.saturating_sub(live_bytes),
    })
}

/// How much of a store's files is memory of this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Bytes of files that the handle has mapped. They take address space, not memory.
    pub mapped: u64,
    /// Bytes of these that are resident: they count in the process's RSS, as file-backed. They are the system's page cache, which is shared by
    /// all processes and given back when memory is needed. `None` where the system doesn't tell (it does on Linux).
    pub resident: Option<u64>,
}

/// Ask the system about each map that the handle has.
pub(crate) fn mapping(open: &Open) -> Result<Mapping> {
    let places: Vec<_> = opened(open).iter().filter_map(|file| file.place()).collect();
    let resident = resident(&places).map_err(Error::io("read", "/proc/self/smaps"))?;
    Ok(Mapping { mapped: places.iter().map(|place| place.len() as u64).sum(), resident })
}

/// Let go of each map that the handle has.
pub(crate) fn unmap(open: &Open) {
    for file in opened(open) {
        file.unmap();
    }
}

fn opened(open: &Open) -> Vec<Arc<Mapped>> {
    let tables = [&open.loc, &open.sum, &open.shape].into_iter().flat_map(|table| table.opened());
    open.chunks.opened().into_iter().chain(tables).collect()
}
