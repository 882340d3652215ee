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

    /// The entry of a record of these dimensions, none of which it says for a single one; `None` if there is none: for more than
    /// [`MAX_RANK`], or one of 2^32 and more.
    #[must_use]
    pub fn of(dimensions: &[u64]) -> Option<Self> {
        if dimensions.len() == 1 {
            return Some(Self::default());
        }
        let mut entry = Self::default();
        let [ranked, places @ ..] = &mut entry.0;
        if dimensions.len() > places.len() {
            return None;
        }
        *ranked = u32::try_from(dimensions.len()).ok()?.checked_add(1)?;
        for (place, &dimension) in places.iter_mut().zip(dimensions) {
            *place = u32::try_from(dimension).ok()?;
        }
        Some(entry)
    }

    /// The dimensions of a record of `items` items; `None` if it can't have this shape.
    #[must_use]
    pub fn dimensions(&self, items: u64) -> Option<Dimensions> {
        let mut found = Dimensions { sizes: [0; MAX_RANK], rank: 1 };
        let [ranked, sizes @ ..] = self.0;
        let Some(rank) = ranked.checked_sub(1) else {
            found.sizes = std::array::from_fn(|i| if i == 0 { items } else { 0 });
            return Some(found);
        };
        found.rank = usize::try_from(rank).ok().filter(|&rank| rank <= MAX_RANK)?;
        found.sizes = sizes.map(u64::from);
        let product = if found.as_slice().contains(&0) {
            Some(0)
        } else {
            found.as_slice().iter().try_fold(1_u64, |product, &size| product.checked_mul(size))
        };
        (product == Some(items)).then_some(found)
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

/// The dimensions of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimensions {
    sizes: [u64; MAX_RANK],
    rank: usize,
}

impl Dimensions {
    /// From the first axis to the last.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        self.sizes.get(..self.rank).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_gives_back_the_dimensions_it_is_of() {
        let most = u64::from(u32::MAX);
        let cases: [&[u64]; 8] = [
            &[],
            &[0],
            &[5],
            &[1 << 40],
            &[2, 3],
            &[0, most, most, most],
            &[most, 1],
            &[1, 1, 1, 1, 1, 1, 2],
        ];
        for dimensions in cases {
            let items = dimensions.iter().fold(1_u128, |items, &size| items * u128::from(size));
            let items = u64::try_from(items).unwrap();
            let entry = Shape::of(dimensions).unwrap();
            assert_eq!(entry.is_plain(), dimensions.len() == 1);
            assert_eq!(entry.dimensions(items).unwrap().as_slice(), dimensions);
            assert_eq!(entry.dimensions(items + 1).is_some(), dimensions.len() == 1, "{dimensions:?}");
        }
        assert_eq!(Shape::of(&[1; 8]), None);
        assert_eq!(Shape::of(&[1, most + 1]), None);
        assert_eq!(Shape([9, 1, 1, 1, 1, 1, 1, 1]).dimensions(1), None);
        assert_eq!(Shape([4, u32::MAX, u32::MAX, u32::MAX, 0, 0, 0, 0]).dimensions(u64::MAX), None);
    }

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
