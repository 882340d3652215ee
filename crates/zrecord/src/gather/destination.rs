//! The caller's memory, cut into one place a record; places never overlap.

use crate::error::{Error, Result};

/// Where gathered records go.
pub(crate) enum Destination<'a> {
    /// Record i to row i; all rows are `row` bytes long, and so must the records be.
    Rows { memory: &'a mut [u8], row: usize },
    /// Record i to the i-th place, which begins at its offset and ends where the record ends.
    Places(Vec<&'a mut [u8]>),
}

impl<'a> Destination<'a> {
    /// `count` rows that fill `memory`.
    pub(crate) fn rows(memory: &'a mut [u8], count: usize) -> Result<Self> {
        let row = memory.len().checked_div(count).unwrap_or(0);
        if row.checked_mul(count) != Some(memory.len()) {
            let why = format!("a destination of {} bytes can't be divided into {count} rows", memory.len());
            return Err(Error::InvalidArgument(why));
        }
        Ok(Self::Rows { memory, row })
    }

    /// Places of `lengths[i]` bytes at `offsets[i]`, in any order, with or without gaps.
    pub(crate) fn places(memory: &'a mut [u8], offsets: &[u64], lengths: &[u32]) -> Result<Self> {
        if offsets.len() != lengths.len() {
            let (found, expected) = (offsets.len(), lengths.len());
            return Err(Error::InvalidArgument(format!("got {found} offsets for {expected} indices")));
        }
        let total = memory.len();
        let mut order: Vec<usize> = (0..offsets.len()).collect();
        // A stable sort: places of zero bytes may share an offset with the one after them.
        order.sort_by_key(|&i| (offsets.get(i), lengths.get(i)));
        let mut places: Vec<&'a mut [u8]> = offsets.iter().map(|_| Default::default()).collect();
        let mut rest = memory;
        let mut consumed = 0_u64;
        for i in order {
            let (Some(&offset), Some(&length), Some(place)) =
                (offsets.get(i), lengths.get(i), places.get_mut(i))
            else {
                continue;
            };
            let misplaced = |why: &str| {
                Error::InvalidArgument(format!("the place of index {i} ({length} bytes at {offset}) {why}"))
            };
            let gap = offset.checked_sub(consumed).ok_or_else(|| misplaced("overlaps the one before it"))?;
            let beyond = || misplaced(&format!("passes the end of the destination ({total} bytes)"));
            let gap = usize::try_from(gap).map_err(|_| beyond())?;
            let (_, from_offset) = rest.split_at_mut_checked(gap).ok_or_else(beyond)?;
            let (now, later) = from_offset.split_at_mut_checked(length as usize).ok_or_else(beyond)?;
            *place = now;
            rest = later;
            consumed = offset + u64::from(length);
        }
        Ok(Self::Places(places))
    }

    /// `count` places one after another, the i-th from `offsets[i]` to `offsets[i + 1]`.
    pub(crate) fn packed(memory: &'a mut [u8], offsets: &[u64], count: usize) -> Result<Self> {
        let fits = offsets.first() == Some(&0)
            && offsets.len().checked_sub(1) == Some(count)
            && offsets.last().is_some_and(|&end| end == memory.len() as u64)
            && offsets.is_sorted();
        if !fits {
            let why = format!("the offsets are no packing of {count} records in {} bytes", memory.len());
            return Err(Error::InvalidArgument(why));
        }
        let mut rest = memory;
        let mut places = Vec::with_capacity(count);
        for (start, end) in offsets.iter().zip(offsets.iter().skip(1)) {
            let length = usize::try_from(end - start).unwrap_or(usize::MAX);
            let (now, later) = std::mem::take(&mut rest).split_at_mut_checked(length).unwrap_or_default();
            places.push(now);
            rest = later;
        }
        Ok(Self::Places(places))
    }

    /// Bytes of all places.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Rows { memory, .. } => memory.len(),
            Self::Places(places) => places.iter().map(|place| place.len()).sum(),
        }
    }

    /// The first `count` places, and the rest.
    pub(super) fn split_at(self, count: usize) -> (Self, Self) {
        match self {
            Self::Rows { memory, row } => {
                let middle = (count * row).min(memory.len());
                let (now, later) = memory.split_at_mut(middle);
                (Self::Rows { memory: now, row }, Self::Rows { memory: later, row })
            }
            Self::Places(mut places) => {
                let later = places.split_off(count.min(places.len()));
                (Self::Places(places), Self::Places(later))
            }
        }
    }

    /// One place a record, in order.
    pub(super) fn into_places(self) -> Places<'a> {
        match self {
            Self::Rows { memory, row } => Places::Rows { rest: memory, row },
            Self::Places(places) => Places::List(places.into_iter()),
        }
    }
}

/// The places of a block, handed out in order.
pub(super) enum Places<'a> {
    Rows { rest: &'a mut [u8], row: usize },
    List(std::vec::IntoIter<&'a mut [u8]>),
}

impl<'a> Iterator for Places<'a> {
    type Item = Result<&'a mut [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Rows { rest, row } => {
                let Some((now, later)) = std::mem::take(rest).split_at_mut_checked(*row) else {
                    return Some(Err(Error::Internal("more records than rows".to_owned())));
                };
                *rest = later;
                Some(Ok(now))
            }
            Self::List(places) => places.next().map(Ok),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_in_the_order_of_the_indices() {
        let mut memory = *b"abcdef";
        let Destination::Places(places) = Destination::places(&mut memory, &[4, 0, 4], &[2, 3, 0]).unwrap()
        else {
            panic!("places");
        };
        assert_eq!(places, [b"ef".as_slice(), b"abc", b""]);
    }

    #[test]
    fn overlaps_and_overruns_are_refused() {
        for (offsets, lengths) in
            [(&[0, 2][..], &[3, 1][..]), (&[5], &[2]), (&[u64::MAX], &[1]), (&[0], &[1, 1])]
        {
            assert!(Destination::places(&mut [0; 6], offsets, lengths).is_err(), "{offsets:?}");
        }
        assert!(Destination::rows(&mut [0; 5], 2).is_err());
        for (offsets, count) in
            [(&[][..], 0), (&[0, 6], 2), (&[0, 4, 2, 6], 3), (&[1, 6], 1), (&[0, 5], 1), (&[0, 7], 1)]
        {
            assert!(Destination::packed(&mut [0; 6], offsets, count).is_err(), "{offsets:?}");
        }
        let mut memory = *b"abcdef";
        let Destination::Places(places) = Destination::packed(&mut memory, &[0, 2, 2, 6], 3).unwrap() else {
            panic!("places");
        };
        assert_eq!(places, [b"ab".as_slice(), b"", b"cdef"]);
    }
}
