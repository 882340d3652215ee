//! The checksum of one record.

use super::bytes::{put, u32_at};
use super::{Entry, Shape};
use crate::checksum::{copy_crc32c_pair, crc32c, crc32c_pair};
use crate::copy::Stores;

/// CRC-32C over a record's stored bytes and its two lengths, and over its shape entry where that says something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum(pub(crate) u32);

impl Sum {
    pub(crate) const SIZE: usize = 4;

    /// The sum of a one-dimensional record whose stored bytes are `stored`; independent of where it lies.
    #[inline]
    pub(crate) fn of(stored: &[u8], entry: &Entry) -> Self {
        Self(crc32c_pair(stored, &lengths(entry)))
    }

    /// Copy the stored bytes to `place`, which is as long; the sum of what was copied.
    #[inline]
    pub(crate) fn of_copy(stored: &[u8], place: &mut [u8], entry: &Entry, stores: Stores) -> Self {
        Self(copy_crc32c_pair(stored, place, &lengths(entry), stores))
    }

    /// From the sum of a record as one of one dimension to its sum with its shape, and back.
    #[inline]
    pub(crate) fn with_shape(self, shape: &Shape) -> Self {
        if shape.is_plain() { self } else { Self(self.0 ^ crc32c(&shape.encode())) }
    }

    pub(crate) fn encode(self) -> [u8; Self::SIZE] {
        self.0.to_le_bytes()
    }

    #[inline]
    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self(u32_at(bytes, 0))
    }
}

#[inline]
fn lengths(entry: &Entry) -> [u8; 8] {
    let mut lengths = [0; 8];
    put(&mut lengths, 0, &entry.stored.to_le_bytes());
    put(&mut lengths, 4, &entry.logical.to_le_bytes());
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_lengths_matter_place_does_not() {
        let entry = Entry { offset: 0, stored: 3, logical: 9, chunk: 0 };
        let sum = Sum::of(b"abc", &entry);
        assert_eq!(sum, Sum::of(b"abc", &Entry { offset: 77, chunk: 5, ..entry }));
        assert_ne!(sum, Sum::of(b"abd", &entry));
        assert_ne!(sum, Sum::of(b"abc", &Entry { stored: 4, ..entry }));
        assert_ne!(sum, Sum::of(b"abc", &Entry { logical: 8, ..entry }));
        assert_eq!(Sum::decode(&sum.encode()), sum);
    }

    #[test]
    fn a_shape_that_says_something_matters() {
        let (plain, shape) = (Shape::default(), Shape([3, 2, 5, 0, 0, 0, 0, 0]));
        assert_eq!(Sum(77).with_shape(&plain), Sum(77));
        assert_ne!(Sum(77).with_shape(&shape), Sum(77));
        assert_ne!(Sum(77).with_shape(&shape), Sum(77).with_shape(&Shape([3, 5, 2, 0, 0, 0, 0, 0])));
        assert_eq!(Sum(77).with_shape(&shape).with_shape(&shape), Sum(77));
    }
}
