//! Stage one: records to stored bytes, block by block, on all cores.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::Records;
use crate::codec::{Codec, Encoder};
use crate::error::Result;
use crate::format::{Entry, Shape, Sum};
use crate::pool;

/// A block is so large at most, in bytes of records and in records, unless one record alone is larger: large enough for a write, small enough to be
/// in the cache still when it is written.
const LARGEST_BYTES: usize = 512 << 10;
const MOST_RECORDS: usize = 1 << 15;
/// A block below this is not worth a thread.
const SMALLEST_BYTES: usize = 64 << 10;
/// Memory of a block that is kept for the next one.
const KEPT_BYTES: usize = 2 * LARGEST_BYTES;

/// A record as it will lie in a chunk, before it is known where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) stored: u32,
    pub(super) logical: u32,
    pub(super) sum: Sum,
}

impl Piece {
    fn new(stored: &[u8], logical: u32) -> Self {
        let length = u32::try_from(stored.len()).unwrap_or(u32::MAX);
        let entry = Entry { stored: length, logical, ..Entry::default() };
        Self { stored: length, logical, sum: Sum::of(stored, &entry) }
    }
}

/// Stored bytes of consecutive records, one after another.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    /// The caller's own memory, where the records lie there as they are stored.
    pub(super) borrowed: Option<&'a [u8]>,
    pub(super) room: Room,
}

impl Block<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        self.borrowed.unwrap_or(&self.room.bytes)
    }

    /// Bytes of its records before they were encoded.
    pub(super) fn logical(&self) -> u64 {
        self.room.pieces.iter().map(|piece| u64::from(piece.logical)).sum()
    }
}

/// The memory of a block.
#[derive(Debug, Default)]
pub(super) struct Room {
    pub(super) bytes: Vec<u8>,
    pub(super) pieces: Vec<Piece>,
}

/// Memory of blocks that were written, for those to come.
#[derive(Debug, Default)]
pub(super) struct Rooms(Mutex<Vec<Room>>);

impl Rooms {
    fn get(&self) -> Room {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    pub(super) fn give_back(&self, mut room: Room) {
        if room.bytes.capacity() > KEPT_BYTES {
            return;
        }
        room.bytes.clear();
        room.pieces.clear();
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rooms.len() <= pool::threads() {
            rooms.push(room);
        }
    }
}

/// The blocks of an append, which get smaller towards its end so that all threads end at the same time.
pub(super) fn divide(records: &Records<'_>) -> Vec<Range<usize>> {
    let mut left = records.bytes();
    let mut blocks = Vec::new();
    let mut start = 0;
    while start < records.len() {
        let target = (left / (2 * pool::threads())).clamp(SMALLEST_BYTES, LARGEST_BYTES);
        let (end, bytes) = records.window(start, target, MOST_RECORDS);
        blocks.push(start..end);
        left = left.saturating_sub(bytes);
        start = end;
    }
    blocks
}

/// Encode the records `range`. With `shapes` their checksums cover these.
pub(super) fn encode<'a>(
    encoder: &Encoder,
    records: &Records<'a>,
    range: Range<usize>,
    shapes: Option<&[Shape]>,
    rooms: &Rooms,
) -> Result<Block<'a>> {
    let mut block = Block { borrowed: None, room: rooms.get() };
    let Room { bytes, pieces } = &mut block.room;
    pieces.reserve(range.len());
    if encoder.codec() == Codec::Raw {
        block.borrowed = records.contiguous(range.clone());
    }
    if block.borrowed.is_some() {
        pieces.extend(range.clone().map(|i| {
            let record = records.get(i);
            Piece::new(record, u32::try_from(record.len()).unwrap_or(u32::MAX))
        }));
    } else {
        encoder.reserve(range.clone().map(|i| records.get(i).len()), bytes)?;
        for i in range.clone() {
            let record = records.get(i);
            let before = bytes.len();
            encoder.encode(record, bytes)?;
            let logical = u32::try_from(record.len()).unwrap_or(u32::MAX);
            pieces.push(Piece::new(bytes.get(before..).unwrap_or_default(), logical));
        }
    }
    if let Some(shapes) = shapes.and_then(|shapes| shapes.get(range)) {
        for (piece, shape) in pieces.iter_mut().zip(shapes) {
            piece.sum = piece.sum.with_shape(shape);
        }
    }
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(records: &Records<'_>) -> Vec<usize> {
        let blocks = divide(records);
        let mut next = 0;
        for block in &blocks {
            assert_eq!(block.start, next);
            assert!(block.end > block.start && block.len() <= MOST_RECORDS);
            next = block.end;
        }
        assert_eq!(next, records.len());
        blocks.iter().map(|block| block.clone().map(|i| records.get(i).len()).sum()).collect()
    }

    #[test]
    fn blocks_are_large_and_end_small() {
        let src = vec![0; 8 << 20];
        let sizes = check(&Records::rows(&src, 8 << 10).unwrap());
        assert_eq!(sizes[0], LARGEST_BYTES.min((8 << 20) / (2 * pool::threads())));
        assert!(sizes.last().is_some_and(|&last| last <= SMALLEST_BYTES));
        assert!(sizes.is_sorted_by(|a, b| a >= b));
        let offsets: Vec<u64> = (0..8 << 10).map(|i| i << 10).collect();
        assert_eq!(check(&Records::packed(&src, &offsets).unwrap()), sizes);
        assert_eq!(check(&Records::list(src.chunks(1 << 10).collect())), sizes);
    }

    #[test]
    fn a_small_append_is_one_block_and_a_large_record_another() {
        assert_eq!(check(&Records::rows(&[0; 100], 1).unwrap()), [100]);
        assert_eq!(check(&Records::rows(&[0; SMALLEST_BYTES], 64).unwrap()).len(), 1);
        let large = vec![0; 3 << 20];
        assert_eq!(check(&Records::list(vec![&large, &large])), [3 << 20, 3 << 20]);
        assert!(check(&Records::rows(&[], 1 << 20).unwrap()).iter().all(|&bytes| bytes == 0));
    }
}
