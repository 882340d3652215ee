//! Stage one: records to stored bytes, on all cores, in contiguous blocks.

use std::borrow::Cow;
use std::ops::Range;

use super::{Piece, Records};
use crate::codec::{Codec, Encoder};
use crate::error::{Error, Result};
use crate::pool;

/// Bytes of records that are in work at once: what an append takes in memory beside the caller's own.
pub(super) const WINDOW_BYTES: usize = 64 << 20;
/// A block below this is not worth a thread.
const BLOCK_BYTES: usize = 64 << 10;
/// Blocks per thread, so that an uneven load evens out.
const BLOCKS_PER_THREAD: usize = 4;

/// Stored bytes of consecutive records, one after another.
#[derive(Debug, Default)]
pub(super) struct Block<'a> {
    pub(super) bytes: Cow<'a, [u8]>,
    pub(super) pieces: Vec<Piece>,
}

/// Encode the records of a window; the blocks come in order.
pub(super) fn encode<'a>(
    encoder: &Encoder,
    records: &Records<'a>,
    window: Range<usize>,
) -> Result<Vec<Block<'a>>> {
    let ranges = divide(records, window);
    let block = |i: usize| match ranges.get(i) {
        Some(range) => encode_block(encoder, records, range.clone()),
        None => Ok(Block::default()),
    };
    let blocks = pool::map(ranges.len(), &block).map_err(|e| Error::Internal(e.to_string()))?;
    blocks.into_iter().collect()
}

fn divide(records: &Records<'_>, window: Range<usize>) -> Vec<Range<usize>> {
    let bytes: usize = window.clone().map(|i| records.get(i).len()).sum();
    let blocks = (bytes / BLOCK_BYTES).clamp(1, pool::threads() * BLOCKS_PER_THREAD);
    let target = bytes.div_ceil(blocks).max(1);
    let mut ranges = Vec::with_capacity(blocks);
    let mut start = window.start;
    while start < window.end {
        let end = records.window(start, target).min(window.end);
        ranges.push(start..end);
        start = end;
    }
    ranges
}

fn encode_block<'a>(encoder: &Encoder, records: &Records<'a>, range: Range<usize>) -> Result<Block<'a>> {
    if encoder.codec() == Codec::Raw
        && let Some(bytes) = records.contiguous(range.clone())
    {
        let pieces = range.map(|i| raw_piece(records.get(i))).collect();
        return Ok(Block { bytes: Cow::Borrowed(bytes), pieces });
    }
    let mut bytes = Vec::new();
    let mut pieces = Vec::with_capacity(range.len());
    for i in range {
        let record = records.get(i);
        let before = bytes.len();
        let stored = encoder.encode(record, &mut bytes)?;
        let logical = u32::try_from(record.len()).unwrap_or(u32::MAX);
        pieces.push(Piece::new(bytes.get(before..).unwrap_or_default(), stored, logical));
    }
    Ok(Block { bytes: Cow::Owned(bytes), pieces })
}

fn raw_piece(record: &[u8]) -> Piece {
    let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
    Piece::new(record, length, length)
}
