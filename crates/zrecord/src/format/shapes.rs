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
