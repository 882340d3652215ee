//! A sync slot: the header as of a sync, numbered.

use super::Header;
use super::HeaderState;
use super::bytes::{put, take, u32_at, u64_at};
use crate::checksum::crc32c;

/// One of the two slots of `sync.zr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncSlot {
    pub(crate) header: Header,
    pub(crate) sequence: u64,
    pub(crate) level: i32,
    /// CRC-32C of `dict.zr`; 0 while there is none that was made durable.
    pub(crate) dict_crc: u32,
}

impl SyncSlot {
    pub(crate) const SIZE: usize = 52;
    /// Distance of the slots: a sector each, so that a torn sector takes one of them at most.
    pub(crate) const STRIDE: usize = 512;
    /// Length of `sync.zr`.
    pub(crate) const FILE_SIZE: usize = 2 * Self::STRIDE;

    /// Where in `sync.zr` this slot goes.
    pub(crate) fn position(&self) -> u64 {
        (self.sequence % 2) * 512
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put(&mut bytes, 0, &self.header.encode());
        put(&mut bytes, 32, &self.sequence.to_le_bytes());
        put(&mut bytes, 40, &self.level.to_le_bytes());
        put(&mut bytes, 44, &self.dict_crc.to_le_bytes());
        let crc = crc32c(bytes.split_at(48).0);
        put(&mut bytes, 48, &crc.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        if crc32c(bytes.split_at(48).0) != u32_at(bytes, 48) {
            return None;
        }
        match Header::decode(&take(bytes, 0)) {
            Ok((header, HeaderState::Ours)) => Some(Self {
                header,
                sequence: u64_at(bytes, 32),
                level: i32::from_le_bytes(take(bytes, 40)),
                dict_crc: u32_at(bytes, 44),
            }),
            _ => None,
        }
    }

    /// Whether one of the slots of `sync.zr` is neither valid nor zeros, as it is before it is first written.
    pub(crate) fn one_is_damaged(file: &[u8]) -> bool {
        [0, Self::STRIDE].iter().any(|&at| {
            let bytes = file.get(at..).unwrap_or_default();
            let bytes = bytes.get(..Self::SIZE).unwrap_or(bytes);
            let whole = bytes.try_into().ok().and_then(Self::decode).is_some();
            !whole && bytes.iter().any(|&byte| byte != 0)
        })
    }

    /// The newer valid slot of a whole `sync.zr`; bytes that are missing are as bad as bytes that are wrong.
    pub(crate) fn newest(file: &[u8]) -> Option<Self> {
        let slot = |at: usize| {
            let bytes = file.get(at..at.checked_add(Self::SIZE)?)?;
            Self::decode(bytes.try_into().ok()?)
        };
        match (slot(0), slot(Self::STRIDE)) {
            (Some(a), Some(b)) => Some(if a.sequence.wrapping_sub(b.sequence) < 1 << 63 { a } else { b }),
            (a, b) => a.or(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Codec;

    fn slot(sequence: u64) -> SyncSlot {
        SyncSlot { header: Header::empty(Codec::Raw), sequence, level: -5, dict_crc: 77 }
    }

    #[test]
    fn round_trip_and_every_changed_byte_is_noticed() {
        assert_eq!(SyncSlot::decode(&slot(9).encode()), Some(slot(9)));
        for at in 0..SyncSlot::SIZE {
            let mut bytes = slot(9).encode();
            bytes[at] ^= 1;
            assert_eq!(SyncSlot::decode(&bytes), None, "byte {at}");
        }
    }

    #[test]
    fn the_newer_valid_slot_wins() {
        let mut file = vec![0; SyncSlot::FILE_SIZE];
        assert_eq!(SyncSlot::newest(&file), None);
        for s in [slot(4), slot(5)] {
            file[usize::try_from(s.position()).unwrap()..][..SyncSlot::SIZE].copy_from_slice(&s.encode());
        }
        assert_eq!(SyncSlot::newest(&file), Some(slot(5)));
        file[SyncSlot::STRIDE] ^= 1;
        assert_eq!(SyncSlot::newest(&file), Some(slot(4)));
        assert_eq!(SyncSlot::newest(&file[..20]), None);
    }
}
