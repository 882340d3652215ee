//! Stage two: where each record goes. Serial arithmetic, no I/O.

use super::encode::Block;
use crate::error::{Error, Result};
use crate::format::{Entry, Header, Sum};

/// A run of bytes for one chunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run<'a> {
    pub(super) chunk: u32,
    pub(super) offset: u32,
    pub(super) bytes: &'a [u8],
}

/// Advance the header's tail over all pieces; entries and sums are added in order. A record never straddles chunks.
pub(super) fn place<'a>(
    header: &mut Header,
    blocks: &'a [Block<'_>],
    chunk_limit: u32,
    entries: &mut Vec<Entry>,
    sums: &mut Vec<Sum>,
) -> Result<Vec<Run<'a>>> {
    let mut runs = Vec::with_capacity(blocks.len());
    for block in blocks {
        let mut run_start = 0;
        let mut at = 0;
        for piece in &block.pieces {
            let fits = header.tail_offset.checked_add(piece.stored).is_some_and(|end| end <= chunk_limit);
            if !fits && header.tail_offset > 0 {
                push(&mut runs, header, block, run_start..at);
                run_start = at;
                header.tail_chunk = header.tail_chunk.checked_add(1).ok_or_else(full)?;
                header.tail_offset = 0;
            }
            let (chunk, offset) = (header.tail_chunk, header.tail_offset);
            entries.push(Entry { offset, stored: piece.stored, logical: piece.logical, chunk });
            sums.push(piece.sum);
            header.tail_offset = offset.checked_add(piece.stored).ok_or_else(full)?;
            at += piece.stored as usize;
        }
        push(&mut runs, header, block, run_start..at);
        header.length += block.pieces.len() as u64;
    }
    Ok(runs)
}

/// The run that ends at the header's tail.
fn push<'a>(runs: &mut Vec<Run<'a>>, header: &Header, block: &'a Block<'_>, range: std::ops::Range<usize>) {
    if let Some(bytes) = block.bytes.get(range).filter(|bytes| !bytes.is_empty()) {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        runs.push(Run { chunk: header.tail_chunk, offset: header.tail_offset.saturating_sub(length), bytes });
    }
}

fn full() -> Error {
    Error::InvalidArgument("the store is full: it has no chunk left for the record".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::Piece;
    use super::*;
    use crate::codec::Codec;

    #[test]
    fn records_roll_over_whole() {
        let piece = |stored| Piece { stored, logical: stored, sum: Sum(stored) };
        let block =
            Block { bytes: b"aabbbccccc".as_slice().into(), pieces: vec![piece(2), piece(3), piece(5)] };
        let mut header = Header { tail_offset: 1, ..Header::empty(Codec::Raw) };
        let (mut entries, mut sums) = (Vec::new(), Vec::new());
        let blocks = [block];
        let runs = place(&mut header, &blocks, 6, &mut entries, &mut sums).unwrap();
        let run = |chunk, offset, bytes| Run { chunk, offset, bytes };
        assert_eq!(runs, [run(0, 1, b"aabbb"), run(1, 0, b"ccccc")]);
        let places: Vec<_> = entries.iter().map(|e| (e.chunk, e.offset)).collect();
        assert_eq!(places, [(0, 1), (0, 3), (1, 0)]);
        assert_eq!((header.tail_chunk, header.tail_offset, header.length), (1, 5, 3));
        assert_eq!(sums, [Sum(2), Sum(3), Sum(5)]);
    }

    #[test]
    fn a_record_longer_than_the_limit_has_a_chunk_of_its_own() {
        let piece = Piece { stored: 9, logical: 9, sum: Sum(0) };
        let blocks = [Block { bytes: b"123456789123456789".as_slice().into(), pieces: vec![piece, piece] }];
        let mut header = Header::empty(Codec::Raw);
        let mut entries = Vec::new();
        place(&mut header, &blocks, 4, &mut entries, &mut Vec::new()).unwrap();
        assert_eq!(entries.iter().map(|e| (e.chunk, e.offset)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
    }
}
