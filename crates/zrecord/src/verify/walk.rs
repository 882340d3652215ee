//! The bytes of records, in the order in which they lie: read in large pieces, summed up, decoded.

use crate::codec::{Codec, Decoder};
use crate::error::{Error, Result};
use crate::format::Sum;
use crate::layout::corrupt;
use crate::open::Open;
use crate::pool;
use crate::recover::read_stored;
use crate::storage::zeroed;

use super::survey::Row;

/// Bytes of one read; a longer record is a read of its own.
const PIECE_BYTES: u64 = if cfg!(any(test, fuzzing)) { 64 } else { 4 << 20 };
/// Dead bytes that are rather read than skipped.
const GAP_BYTES: u64 = if cfg!(any(test, fuzzing)) { 8 } else { 64 << 10 };
/// Bytes and rows between two looks at the watch.
const BATCH_BYTES: u64 = 64 << 20;
const BATCH_ROWS: usize = if cfg!(any(test, fuzzing)) { 4 } else { 1 << 18 };

/// How many of the rows to check before the next look at the watch.
pub(super) fn batch(rows: &[Row]) -> usize {
    let mut bytes = 0;
    let fits = |row: &&Row| {
        bytes += u64::from(row.entry.stored);
        bytes <= BATCH_BYTES
    };
    rows.iter().take(BATCH_ROWS).take_while(fits).count().max(1)
}

/// Rows whose bytes are read at once: they lie in one chunk, from `start` to `end`.
struct Piece<'a> {
    rows: &'a [Row],
    start: u64,
    end: u64,
}

/// Cut rows, which are in the order of their bytes, into pieces.
fn pieces(rows: &[Row]) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = rows;
    while let Some(first) = rest.first() {
        let start = u64::from(first.entry.offset);
        let mut end = first.entry.end();
        let mut count = 1;
        for row in rest.iter().skip(1) {
            let entry = row.entry;
            let near = u64::from(entry.offset) <= end + GAP_BYTES && entry.end() <= start + PIECE_BYTES;
            let alike = (entry.stored == 0) == (first.entry.stored == 0) && entry.chunk == first.entry.chunk;
            if !(near && alike) {
                break;
            }
            end = end.max(entry.end());
            count += 1;
        }
        let (now, later) = rest.split_at(count);
        pieces.push(Piece { rows: now, start, end });
        rest = later;
    }
    pieces
}

pub(super) struct Walk<'a> {
    open: &'a Open,
    /// `None` where the dictionary is missing: then sums are all that can be checked.
    decoder: Option<Decoder>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(open: &'a Open) -> Self {
        Self { open, decoder: open.decoder().ok() }
    }

    /// The sum of each row's bytes, its shape included, or what is wrong with them.
    pub(super) fn check(&self, rows: &[Row]) -> Result<Vec<Result<Sum>>> {
        let pieces = pieces(rows);
        let outcomes = pool::map(pieces.len(), &|i| {
            pieces.get(i).map_or_else(|| Ok(Vec::new()), |piece| self.piece(piece))
        });
        let outcomes = outcomes.map_err(|e| Error::Internal(e.to_string()))?;
        Ok(outcomes.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn piece(&self, piece: &Piece<'_>) -> Result<Vec<Result<Sum>>> {
        let mut scratch = Vec::new();
        match self.read(piece) {
            Ok(bytes) => {
                let stored = |row: &Row| {
                    let at = usize::try_from(u64::from(row.entry.offset).checked_sub(piece.start)?).ok()?;
                    bytes.get(at..at.checked_add(row.entry.stored as usize)?)
                };
                piece
                    .rows
                    .iter()
                    .map(|row| self.row(row, stored(row).unwrap_or_default(), &mut scratch))
                    .collect()
            }
            // One by one: what can't be read costs only the records on it.
            Err(_) => piece
                .rows
                .iter()
                .map(|row| match self.read_again(row) {
                    Ok(stored) => self.row(row, &stored, &mut scratch),
                    Err(e) => Ok(Err(self.unreadable(row, &e))),
                })
                .collect(),
        }
    }

    /// One record, and a second time if that fails: a moment's fault must not make a damaged record of a neighbour of one, since those can be cut out.
    fn read_again(&self, row: &Row) -> Result<Vec<u8>> {
        read_stored(self.open, &row.entry).or_else(|_| read_stored(self.open, &row.entry))
    }

    fn read(&self, piece: &Piece<'_>) -> Result<Vec<u8>> {
        let Some(first) = piece.rows.first().filter(|first| first.entry.stored > 0) else {
            return Ok(Vec::new());
        };
        let chunk = u64::from(first.entry.chunk);
        let fail = |e| self.open.chunks.fail(chunk, e);
        if self.open.chunks.length(chunk)? < piece.end {
            return Err(fail(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let mut bytes =
            zeroed(usize::try_from(piece.end - piece.start).unwrap_or(usize::MAX)).map_err(fail)?;
        self.open.chunks.get(chunk)?.file().read_at(&mut bytes, piece.start).map_err(fail)?;
        Ok(bytes)
    }

    /// Check one record; the outer error is one of this machine's, not of the store's.
    fn row(&self, row: &Row, stored: &[u8], scratch: &mut Vec<u8>) -> Result<Result<Sum>> {
        let sum = row.sum_of(stored);
        if let Some(expected) = row.sum.filter(|&expected| expected != sum) {
            let (found, expected) = (format!("{:#010x}", sum.0), format!("{:#010x}", expected.0));
            return Ok(Err(corrupt(self.open, row.record, &row.entry, "its checksum", found, expected)));
        }
        let Some(decoder) = self.decoder.as_ref().filter(|_| self.open.codec != Codec::Raw) else {
            return Ok(Ok(sum));
        };
        let length = row.entry.logical as usize;
        if scratch.len() < length {
            *scratch = zeroed(length).map_err(Error::io("decode a record of", self.open.path()))?;
        }
        let place = scratch.get_mut(..length).unwrap_or_default();
        Ok(decoder.decode_into(stored, place).map(|()| sum).map_err(|e| {
            let expected = format!("{length} bytes");
            corrupt(self.open, row.record, &row.entry, "it does not decode", e.to_string(), expected)
        }))
    }

    fn unreadable(&self, row: &Row, e: &Error) -> Error {
        let expected = "bytes that can be read".to_owned();
        corrupt(self.open, row.record, &row.entry, "its bytes", e.to_string(), expected)
    }
}
