//! Records of the size of a number, all in one chunk: each takes a few instructions, and what it waits for is memory.

use super::uniform::NotUniform;
use crate::format::{Entry, Sum};
use crate::prefetch::prefetch;

/// Records that are asked for from memory before the first of them is read: about as many as a processor waits for at once.
const AHEAD: usize = 16;

/// What is read: the records' bytes from the first on, and their sums if they are to be checked.
#[derive(Clone, Copy)]
pub(super) struct Scalars<'a> {
    pub(super) records: &'a [u8],
    pub(super) sums: Option<&'a [u8]>,
}

impl Scalars<'_> {
    /// Whether there is a loop for records of so many bytes.
    pub(super) fn can_be(row: u32) -> bool {
        matches!(row, 1 | 2 | 4 | 8 | 16)
    }

    /// The records `idxs`, of which each has `row` bytes, into `rows`.
    pub(super) fn read(self, idxs: &[u64], rows: &mut [u8], row: u32) -> Result<(), NotUniform> {
        match row {
            1 => self.read_as::<1>(idxs, rows),
            2 => self.read_as::<2>(idxs, rows),
            4 => self.read_as::<4>(idxs, rows),
            8 => self.read_as::<8>(idxs, rows),
            16 => self.read_as::<16>(idxs, rows),
            _ => Err(NotUniform),
        }
    }

    fn read_as<const N: usize>(self, idxs: &[u64], rows: &mut [u8]) -> Result<(), NotUniform> {
        let records = self.records.as_chunks::<N>().0;
        let places = rows.as_chunks_mut::<N>().0;
        let (now, ahead) = idxs.split_at(AHEAD.min(idxs.len()));
        now.iter().for_each(|&record| self.prefetch::<N>(record));
        // What comes behind the last one asks for the first ones again, which are at hand.
        let coming = ahead.iter().chain(now);
        let Some(sums) = self.sums else {
            for ((&record, place), &later) in idxs.iter().zip(places).zip(coming) {
                self.prefetch::<N>(later);
                *place = *get(records, record)?;
            }
            return Ok(());
        };
        let sums = sums.as_chunks::<{ Sum::SIZE }>().0;
        let length = u32::try_from(N).unwrap_or(u32::MAX);
        let entry = Entry { stored: length, logical: length, ..Entry::default() };
        let mut wrong = false;
        for ((&record, place), &later) in idxs.iter().zip(places).zip(coming) {
            self.prefetch::<N>(later);
            *place = *get(records, record)?;
            wrong |= Sum::of(place, &entry) != Sum::decode(get(sums, record)?);
        }
        if wrong { Err(NotUniform) } else { Ok(()) }
    }

    #[inline]
    fn prefetch<const N: usize>(self, record: u64) {
        let record = usize::try_from(record).unwrap_or(usize::MAX);
        prefetch(self.records, record.wrapping_mul(N), 1);
        if let Some(sums) = self.sums {
            prefetch(sums, record.wrapping_mul(Sum::SIZE), 1);
        }
    }
}

#[inline]
fn get<const N: usize>(cells: &[[u8; N]], record: u64) -> Result<&[u8; N], NotUniform> {
    usize::try_from(record).ok().and_then(|record| cells.get(record)).ok_or(NotUniform)
}
