//! One entry of the record table.

use super::bytes::{put, u32_at};

/// Where a record lies, and its two lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) offset: u32,
    pub(crate) stored: u32,
    pub(crate) logical: u32,
    pub(crate) chunk: u32,
}

impl Entry {
    pub(crate) const SIZE: usize = 16;

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put(&mut bytes, 0, &self.offset.to_le_bytes());
        put(&mut bytes, 4, &self.stored.to_le_bytes());
        put(&mut bytes, 8, &self.logical.to_le_bytes());
        put(&mut bytes, 12, &self.chunk.to_le_bytes());
        bytes
    }

    #[inline]
    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Self {
        Self {
            offset: u32_at(bytes, 0),
            stored: u32_at(bytes, 4),
            logical: u32_at(bytes, 8),
            chunk: u32_at(bytes, 12),
        }
    }

    /// The first byte after the record in its chunk; it may lie beyond any chunk if the entry is damaged.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Entry = Entry { offset: 1, stored: 2, logical: 3, chunk: 0xFFFF_FFFE };

    #[test]
    fn round_trip() {
        assert_eq!(Entry::decode(&ENTRY.encode()), ENTRY);
    }

    #[test]
    fn every_byte_matters() {
        for at in 0..Entry::SIZE {
            let mut bytes = ENTRY.encode();
            bytes[at] ^= 0x40;
            assert_ne!(Entry::decode(&bytes), ENTRY, "byte {at}");
        }
    }
}
