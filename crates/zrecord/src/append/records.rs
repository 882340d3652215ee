//! The records of one append, as the caller holds them: nothing is copied here.

use crate::error::{Error, Result};

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
            Kind::List(_) => None,
        }
    }

    /// The end of the run of records from `start` on that holds at most `bytes` bytes, and at least one record.
    pub(super) fn window(&self, start: usize, bytes: usize) -> usize {
        const MOST_RECORDS: usize = 1 << 20;
        let mut total = 0_usize;
        let mut end = start;
        while end < self.len() && end - start < MOST_RECORDS {
            total = total.saturating_add(self.get(end).len());
            if total > bytes && end > start {
                break;
            }
            end += 1;
        }
        end
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
        let records = Records::rows(b"aabbcc", 3).unwrap();
        assert_eq!(records.window(0, 4), 2);
        assert_eq!(records.window(0, 1), 1);
        assert_eq!(records.window(1, 100), 3);
    }
}
