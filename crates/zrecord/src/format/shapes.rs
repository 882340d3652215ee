//! One entry of the shape table.

use super::bytes::{put, u32_at};

/// The most dimensions a ragged record can have.
pub const MAX_RANK: usize = 7;

/// A record's shape as stored: `rank + 1` and up to [`MAX_RANK`] dimensions, or all zero for
/// "one dimension, as long as the record".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape(pub [u32; MAX_RANK + 1]);

impl Shape {
    pub(crate) const SIZE: usize = 32;

    /// Whether this says no more than the record's length does.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.0 == [0; MAX_RANK + 1]
    }

    /// Whether a record of `length` bytes can have this shape, whatever the size of its items.
    pub(crate) fn fits(&self, length: u32) -> bool {
        let [ranked, dimensions @ ..] = self.0;
        let Some(rank) = ranked.checked_sub(1) else { return self.is_plain() };
        let (used, unused) = dimensions.split_at(dimensions.len().min(rank as usize));
        if rank as usize > MAX_RANK || unused.iter().any(|&dimension| dimension != 0) {
            return false;
        }
        if used.contains(&0) {
            return length == 0;
        }
        let items = used.iter().try_fold(1u64, |items, &dimension| items.checked_mul(dimension.into()));
        items.is_some_and(|items| u64::from(length) % items == 0)
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        for (i, word) in self.0.iter().enumerate() {
            put(&mut bytes, i * 4, &word.to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self(std::array::from_fn(|i| u32_at(bytes, i * 4)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_fits_a_record_that_its_items_divide() {
        let shape = |words: &[u32]| {
            let mut all = [0; MAX_RANK + 1];
            all[..words.len()].copy_from_slice(words);
            Shape(all)
        };
        for (words, length) in [
            (&[][..], 7),
            (&[1], 8),
            (&[3, 2, 5], 40),
            (&[3, 0, 5], 0),
            (&[8, 1, 1, 1, 1, 1, 1, 2], 2),
            (&[2, 3], 0),
        ] {
            assert!(shape(words).fits(length), "{words:?}");
        }
        for (words, length) in [
            (&[0, 1][..], 7),
            (&[3, 2, 5], 41),
            (&[3, 0, 5], 1),
            (&[9], 0),
            (&[2, 3, 1], 3),
            (&[3, u32::MAX, u32::MAX], 4),
        ] {
            assert!(!shape(words).fits(length), "{words:?}");
        }
    }

    #[test]
    fn round_trip_and_every_byte_matters() {
        let shape = Shape([4, 5, 1, u32::MAX, 0, 0, 0, 0]);
        assert_eq!(Shape::decode(&shape.encode()), shape);
        for at in 0..Shape::SIZE {
            let mut bytes = shape.encode();
            bytes[at] ^= 1;
            assert_ne!(Shape::decode(&bytes), shape, "byte {at}");
        }
    }
}
