//! The records of one append, as the caller holds them: nothing is copied here.

use crate::error::{Error, Result};

/// A write of so many bytes is worth a call.
const ALONE: usize = 128 << 10;

/// Byte records to be appended.
#[derive(Clone, Debug)]
pub struct Records<'a>(Kind<'a>);

#[derive(Clone, Debug)]
enum Kind<'a> {
    /// One after another; record i starts at `offsets[i]`, the last one ends with `src`.
    Packed { src: &'a [u8], offsets: &'a [u64] },
    /// All of the same length.
    Rows { src: &'a [u8], count: usize, row: usize },
    /// Anywhere.
    List(Vec<&'a [u8]>),
}

impl<'a> Records<'a> {
    /// Records packed in `src`: record i starts at byte `offsets[i]`, the first at 0, the last one ends with `src`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the offsets don't start at 0, decrease, or pass the end of `src`.
    pub fn packed(src: &'a [u8], offsets: &'a [u64]) -> Result<Self> {
        let refuse = |why: String| Err(Error::InvalidArgument(why));
        if let Some(&first) = offsets.first()
            && first != 0
        {
            return refuse(format!(
                "the first offset is {first}, expected 0: records are packed without gaps"
            ));
        }
        let mut previous = 0;
        for (i, &offset) in offsets.iter().enumerate() {
            if offset < previous {
                return refuse(format!("offset {i} is {offset}, less than the one before ({previous})"));
            }
            previous = offset;
        }
        if previous > src.len() as u64 {
            return refuse(format!("the last offset is {previous}, beyond the {} bytes given", src.len()));
        }
        Ok(Self(Kind::Packed { src, offsets }))
    }

    /// `count` records of `src.len() / count` bytes each.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if `src` can't be divided so.
    pub fn rows(src: &'a [u8], count: usize) -> Result<Self> {
        let row = src.len().checked_div(count).unwrap_or(0);
        if row.checked_mul(count) != Some(src.len()) {
            let why = format!("{} bytes are not {count} records of equal length", src.len());
            return Err(Error::InvalidArgument(why));
        }
        Ok(Self(Kind::Rows { src, count, row }))
    }

    /// Records that lie anywhere.
    #[must_use]
    pub fn list(records: Vec<&'a [u8]>) -> Self {
        Self(Kind::List(records))
    }

    /// The number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::Packed { offsets, .. } => offsets.len(),
            Kind::Rows { count, .. } => *count,
            Kind::List(records) => records.len(),
        }
    }

    /// Whether there is no record.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of record `i`; empty beyond the last.
    #[must_use]
    pub fn get(&self, i: usize) -> &'a [u8] {
        match &self.0 {
            Kind::List(records) => records.get(i).copied().unwrap_or_default(),
            _ => self.contiguous(i..i + 1).unwrap_or_default(),
        }
    }

    /// The bytes of the records `range` where they lie one after another in the caller's memory.
    pub(super) fn contiguous(&self, range: std::ops::Range<usize>) -> Option<&'a [u8]> {
        match &self.0 {
            Kind::Packed { src, offsets } => {
                let at = |i: usize| match offsets.get(i) {
                    Some(&offset) => usize::try_from(offset).unwrap_or(usize::MAX),
                    None => src.len(),
                };
                src.get(at(range.start)..at(range.end))
            }
            Kind::Rows { src, row, .. } => {
                src.get(range.start.checked_mul(*row)?..range.end.checked_mul(*row)?)
            }
            Kind::List(records) => match records.get(range)? {
                [record] => Some(record),
                _ => None,
            },
        }
    }

    /// The bytes of all records.
    pub(super) fn bytes(&self) -> usize {
        match &self.0 {
            Kind::Packed { src, .. } | Kind::Rows { src, .. } => src.len(),
            Kind::List(records) => records.iter().map(|record| record.len()).sum(),
        }
    }

    /// The first record of more than `limit` bytes, and its length.
    pub(super) fn first_longer(&self, limit: u64) -> Option<(usize, u64)> {
        let length = |i| self.get(i).len() as u64;
        // All rows are as long as the first one.
        let looked_at = if let Kind::Rows { .. } = self.0 { 1 } else { self.len() };
        (0..looked_at).map(|i| (i, length(i))).find(|&(_, length)| length > limit)
    }

    /// The end of the run of records from `start` on that holds at most `bytes` bytes and `count` records, and at least one; and its bytes.
    pub(super) fn window(&self, start: usize, bytes: usize, count: usize) -> (usize, usize) {
        let last = self.len().min(start.saturating_add(count));
        if let Kind::Rows { row, .. } = self.0 {
            let rows =
                bytes.checked_div(row).unwrap_or(usize::MAX).clamp(1, last.saturating_sub(start).max(1));
            return (start.saturating_add(rows), rows.saturating_mul(row));
        }
        let mut total = 0_usize;
        let mut end = start;
        while end < last {
            let length = self.get(end).len();
            // A long one that lies apart is a run of its own: it can be written from where it is.
            let alone = length >= ALONE && matches!(self.0, Kind::List(_));
            if end > start && (alone || total.saturating_add(length) > bytes) {
                break;
            }
            total = total.saturating_add(length);
            end += 1;
            if alone {
                break;
            }
        }
        (end, total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(records: &Records<'_>) -> Vec<Vec<u8>> {
        (0..records.len()).map(|i| records.get(i).to_vec()).collect()
    }

    #[test]
    fn the_three_forms_agree() {
        let packed = Records::packed(b"aabbcc", &[0, 2, 4]).unwrap();
        let rows = Records::rows(b"aabbcc", 3).unwrap();
        let list = Records::list(vec![b"aa", b"bb", b"cc"]);
        assert_eq!(all(&packed), all(&list));
        assert_eq!(all(&rows), all(&list));
        assert_eq!(
            all(&Records::packed(b"abc", &[0, 0, 3]).unwrap()),
            [b"".to_vec(), b"abc".to_vec(), b"".to_vec()]
        );
        assert_eq!(all(&Records::rows(b"", 2).unwrap()), [b"".to_vec(), b"".to_vec()]);
    }

    #[test]
    fn bad_offsets_are_refused() {
        for offsets in [&[1, 2][..], &[0, 3, 2], &[0, 7]] {
            assert!(
                matches!(Records::packed(b"abcdef", offsets), Err(Error::InvalidArgument(_))),
                "{offsets:?}"
            );
        }
        assert!(Records::rows(b"abc", 2).is_err());
        assert!(Records::rows(b"abc", 0).is_err());
    }

    #[test]
    fn a_window_holds_what_fits_and_at_least_one() {
        let forms = [
            Records::rows(b"aabbcc", 3).unwrap(),
            Records::packed(b"aabbcc", &[0, 2, 4]).unwrap(),
            Records::list(vec![b"aa", b"bb", b"cc"]),
        ];
        for records in forms {
            assert_eq!(records.bytes(), 6);
            assert_eq!(records.window(0, 4, 9), (2, 4));
            assert_eq!(records.window(0, 5, 9), (2, 4));
            assert_eq!(records.window(0, 1, 9), (1, 2));
            assert_eq!(records.window(1, 100, 9), (3, 4));
            assert_eq!(records.window(0, 100, 2), (2, 4));
            assert_eq!(records.first_longer(2), None);
            assert_eq!(records.first_longer(1), Some((0, 2)));
        }
        assert_eq!(Records::rows(b"", 3).unwrap().window(0, 0, 2), (2, 0));
    }

    #[test]
    fn a_long_record_that_lies_apart_is_not_copied() {
        let long = vec![0; ALONE];
        let records = Records::list(vec![b"a", b"b", &long, b"c"]);
        let ends = [(0, 2), (2, 3), (3, 4)];
        for (start, end) in ends {
            assert_eq!(records.window(start, usize::MAX, 9).0, end);
        }
        assert_eq!(records.contiguous(2..3).map(<[u8]>::as_ptr), Some(long.as_ptr()));
        assert_eq!(records.contiguous(0..2), None);
    }
}
