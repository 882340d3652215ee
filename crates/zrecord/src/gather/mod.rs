//! The read path: check -> locate (table, or arithmetic where all records are alike) -> read -> decode -> destination, in blocks of records over the pool.

mod ahead;
mod checked;
mod destination;
mod locate;
mod read;
mod scalars;
mod uniform;

use std::sync::{Mutex, PoisonError};

use crate::codec::Codec;
use crate::copy::{self, Stores};
use crate::error::{Error, Result};
use crate::format::{FLAG_SHAPES, Header, Shape};
use crate::open::Open;
use crate::options::Verify;
use crate::pool;
use crate::uniform::Uniform;
pub(crate) use ahead::Ahead;
pub(crate) use checked::Checked;
pub(crate) use destination::Destination;
use locate::{Located, Locator};
use read::Reader;
use uniform::RowReader;

/// Below this many destination bytes one thread is quicker than two, even if the other one looks out for work (see `pool.rs`).
const ONE_THREAD_RAW: usize = 256 << 10;
const ONE_THREAD_ZSTD: usize = 96 << 10;
/// From so many destination bytes on, a batch is not found in the caches by whoever uses it next.
const STREAMING: usize = 2 << 20;
/// Blocks per thread, so that an uneven load evens out.
const BLOCKS_PER_THREAD: usize = 4;
/// Records that are located, and asked for from memory, before the first of them is read.
const AHEAD: usize = 16;

/// Read records `idxs` into their places.
pub(crate) fn gather(open: &Open, idxs: &[u64], destination: Destination<'_>) -> Result<()> {
    let header = open.header();
    check_indices(idxs, &header)?;
    if idxs.is_empty() {
        // Also where a dictionary is missing: a new store has none yet.
        return Ok(());
    }
    let bytes = destination.bytes();
    let blocks = blocks(open.codec, idxs.len(), bytes);
    let stores = if bytes < STREAMING { Stores::Cached } else { Stores::Streaming };
    let uniform = Uniform::known(open, &header)?;
    open.ahead.ask(open, &header, uniform, idxs, bytes)?;
    let job = Job { open, uniform, header, stores };
    if blocks <= 1 {
        return job.read_block(idxs, destination);
    }
    let per_block = idxs.len().div_ceil(blocks);
    let mut parts = Vec::with_capacity(blocks);
    let mut rest = destination;
    for part in idxs.chunks(per_block) {
        let (now, later) = rest.split_at(part.len());
        parts.push(Mutex::new((Some((part, now)), Ok(()))));
        rest = later;
    }
    pool::run(parts.len(), pool::threads(), &|i| {
        let Some(part) = parts.get(i) else { return };
        let mut slot = part.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((idxs, destination)) = slot.0.take() {
            slot.1 = job.read_block(idxs, destination);
        }
    })
    .map_err(|e| Error::Internal(e.to_string()))?;
    parts.into_iter().try_for_each(|part| part.into_inner().unwrap_or_else(PoisonError::into_inner).1)
}

fn check_indices(idxs: &[u64], header: &Header) -> Result<()> {
    match idxs.iter().find(|&&index| index >= header.length) {
        Some(&index) => Err(Error::IndexOutOfRange { index, length: header.length }),
        None => Ok(()),
    }
}

fn blocks(codec: Codec, records: usize, bytes: usize) -> usize {
    let one_thread = if codec == Codec::Raw { ONE_THREAD_RAW } else { ONE_THREAD_ZSTD };
    if bytes < one_thread || pool::threads() == 1 {
        return 1;
    }
    (pool::threads() * BLOCKS_PER_THREAD).min(records)
}

/// What all blocks of a gather share.
struct Job<'a> {
    open: &'a Open,
    header: Header,
    /// Where records lie, if that is arithmetic.
    uniform: Option<Uniform>,
    stores: Stores,
}

impl Job<'_> {
    fn read_block(&self, idxs: &[u64], mut destination: Destination<'_>) -> Result<()> {
        let outcome = match self.read_rows(idxs, &mut destination) {
            Some(()) => Ok(()),
            None => self.read_by_table(idxs, destination),
        };
        copy::finish(self.stores);
        outcome
    }

    /// Rows of a store whose records are all alike; `None` if these are no such rows, or if one of them is not as it should be.
    fn read_rows(&self, idxs: &[u64], destination: &mut Destination<'_>) -> Option<()> {
        let uniform = self.uniform.filter(|_| !self.header.has(FLAG_SHAPES))?;
        let Destination::Rows { memory, row } = destination else { return None };
        if *row != uniform.row() as usize {
            return None;
        }
        RowReader::new(self.open, &self.header, uniform, self.stores).read(idxs, memory).ok()
    }

    fn read_by_table(&self, idxs: &[u64], destination: Destination<'_>) -> Result<()> {
        let mut locator = Locator::new(self.open, &self.header, self.open.verify);
        let mut reader = Reader::new(self.open, self.stores)?;
        let mut places = destination.into_places();
        let mut located = [Located::default(); AHEAD];
        let mut coming = idxs.iter();
        if let Some(&first) = coming.next() {
            // Entries can be asked for once the tables are open.
            locator.locate(first)?;
        }
        coming.by_ref().take(AHEAD - 1).for_each(|&index| locator.prefetch(index));
        for ahead in idxs.chunks(AHEAD) {
            for (slot, &index) in located.iter_mut().zip(ahead) {
                if let Some(&later) = coming.next() {
                    locator.prefetch(later);
                }
                *slot = locator.locate(index)?;
                reader.prefetch(slot);
            }
            let mut next = located.iter().take(ahead.len()).skip(1);
            for (found, place) in located.iter().zip(places.by_ref().take(ahead.len())) {
                if let Some(next) = next.next() {
                    reader.prefetch_lead(next);
                }
                reader.read(found, place?)?;
            }
        }
        Ok(())
    }
}

/// Logical bytes of each record.
pub(crate) fn lengths(open: &Open, idxs: &[u64]) -> Result<Vec<u32>> {
    let header = open.header();
    check_indices(idxs, &header)?;
    if let Some(uniform) = Uniform::known(open, &header)? {
        return Ok(vec![uniform.row(); idxs.len()]);
    }
    let mut locator = Locator::new(open, &header, Verify::Never);
    let mut lengths = Vec::with_capacity(idxs.len());
    for (i, &index) in idxs.iter().enumerate() {
        if let Some(&later) = idxs.get(i + AHEAD) {
            locator.prefetch(later);
        }
        lengths.push(locator.locate(index)?.entry.logical);
    }
    Ok(lengths)
}

/// Shapes of the records, plain where the store keeps none.
pub(crate) fn shapes(open: &Open, idxs: &[u64]) -> Result<Vec<Shape>> {
    let header = open.header();
    check_indices(idxs, &header)?;
    if !header.has(FLAG_SHAPES) {
        return Ok(vec![Shape::default(); idxs.len()]);
    }
    let mut view = open.shape.view(header.length);
    idxs.iter().map(|&index| Ok(Shape::decode(&view.get(index)?))).collect()
}

/// Where the records `idxs` begin when they are packed one after another, and where the last one ends.
pub(crate) fn packed_offsets(open: &Open, idxs: &[u64]) -> Result<Vec<u64>> {
    let mut end = 0;
    let mut offsets = Vec::with_capacity(idxs.len().saturating_add(1));
    offsets.push(0);
    for length in lengths(open, idxs)? {
        end += u64::from(length);
        offsets.push(end);
    }
    Ok(offsets)
}
