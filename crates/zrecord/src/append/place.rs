//! Stage two: where each record goes. Serial arithmetic, no I/O.

use std::ops::Range;

use super::encode::Block;
use crate::error::{Error, Result};
use crate::format::{Entry, Header, Sum};
use crate::uniform::Growing;

/// A run of a block's bytes for one chunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) chunk: u32,
    pub(super) offset: u32,
    pub(super) bytes: Range<usize>,
}

/// Rows of the tables, as they are stored.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) entries: Vec<[u8; Entry::SIZE]>,
    pub(super) sums: Vec<[u8; Sum::SIZE]>,
}

/// Advance the header's tail over all pieces of a block; their rows are added in order. A record never straddles chunks.
pub(super) fn place(
    header: &mut Header,
    block: &Block<'_>,
    chunk_limit: u32,
    rows: &mut Rows,
    runs: &mut Vec<Run>,
    growing: &mut Growing,
) -> Result<()> {
    let pieces = &block.room.pieces;
    rows.sums.extend(pieces.iter().map(|piece| piece.sum.encode()));
    rows.entries.reserve(pieces.len());
    let (mut run_start, mut at) = (0, 0);
    for piece in pieces {
        let fits = header.tail_offset.checked_add(piece.stored).is_some_and(|end| end <= chunk_limit);
        if !fits && header.tail_offset > 0 {
            push(runs, header, run_start..at);
            run_start = at;
            header.tail_chunk = header.tail_chunk.checked_add(1).ok_or_else(full)?;
            header.tail_offset = 0;
        }
        let (chunk, offset) = (header.tail_chunk, header.tail_offset);
        let entry = Entry { offset, stored: piece.stored, logical: piece.logical, chunk };
        growing.add(&entry);
        rows.entries.push(entry.encode());
        header.tail_offset = offset.checked_add(piece.stored).ok_or_else(full)?;
        at += piece.stored as usize;
    }
    push(runs, header, run_start..at);
    header.length += pieces.len() as u64;
    Ok(())
}

/// The run that ends at the header's tail.
fn push(runs: &mut Vec<Run>, header: &Header, bytes: Range<usize>) {
    if !bytes.is_empty() {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        runs.push(Run { chunk: header.tail_chunk, offset: header.tail_offset.saturating_sub(length), bytes });
    }
}

fn full() -> Error {
    Error::InvalidArgument("the store is full: it has no chunk left for the record".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::encode::{Piece, Room};
    use super::*;
    use crate::codec::Codec;

    fn block(bytes: &[u8], stored: &[u32]) -> Block<'static> {
        let piece = |&stored| Piece { stored, logical: stored, sum: Sum(stored) };
        let room = Room { bytes: bytes.to_vec(), pieces: stored.iter().map(piece).collect() };
        Block { borrowed: None, room }
    }

    fn growing(header: &Header) -> Growing {
        Growing::from(header, None)
    }

    fn places(rows: &Rows) -> Vec<(u32, u32)> {
        rows.entries.iter().map(Entry::decode).map(|e| (e.chunk, e.offset)).collect()
    }

    #[test]
    fn records_roll_over_whole() {
        let mut header = Header { tail_offset: 1, ..Header::empty(Codec::Raw) };
        let (mut rows, mut runs) = (Rows::default(), Vec::new());
        let block = block(b"aabbbccccc", &[2, 3, 5]);
        let mut growing = growing(&header);
        place(&mut header, &block, 6, &mut rows, &mut runs, &mut growing).unwrap();
        let run = |chunk, offset, bytes| Run { chunk, offset, bytes };
        assert_eq!(runs, [run(0, 1, 0..5), run(1, 0, 5..10)]);
        assert_eq!(places(&rows), [(0, 1), (0, 3), (1, 0)]);
        assert_eq!((header.tail_chunk, header.tail_offset, header.length), (1, 5, 3));
        assert_eq!(rows.sums, [Sum(2), Sum(3), Sum(5)].map(Sum::encode));
    }

    #[test]
    fn a_record_longer_than_the_limit_has_a_chunk_of_its_own() {
        let mut header = Header::empty(Codec::Raw);
        let (mut rows, mut runs) = (Rows::default(), Vec::new());
        let mut growing = growing(&header);
        place(&mut header, &block(&[0; 18], &[9, 9]), 4, &mut rows, &mut runs, &mut growing).unwrap();
        assert_eq!(places(&rows), [(0, 0), (1, 0)]);
    }

    #[test]
    fn blocks_follow_each_other() {
        let mut header = Header::empty(Codec::Raw);
        let (mut rows, mut runs) = (Rows::default(), Vec::new());
        for stored in [&[2, 1][..], &[0, 3], &[0]] {
            let bytes = vec![0; stored.iter().sum::<u32>() as usize];
            let mut growing = growing(&header);
            place(&mut header, &block(&bytes, stored), 5, &mut rows, &mut runs, &mut growing).unwrap();
        }
        assert_eq!(places(&rows), [(0, 0), (0, 2), (0, 3), (1, 0), (1, 3)]);
        let ends: Vec<_> = runs.iter().map(|run| (run.chunk, run.offset, run.bytes.len())).collect();
        assert_eq!(ends, [(0, 0, 3), (1, 0, 3)]);
    }
}
