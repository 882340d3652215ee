//! The header, `meta.zr`.

use super::bytes::{put, take, u32_at, u64_at};
use super::{EXTENSION, FORMAT_VERSION};
use crate::checksum::crc32c;
use crate::codec::Codec;

/// Header flag: `.sum` covers every record.
pub(crate) const FLAG_SUMS: u8 = 1;
/// Header flag: `.shape` covers every record.
pub(crate) const FLAG_SHAPES: u8 = 2;
/// Header flag: where a record lies is arithmetic (see `uniform.rs`).
pub(crate) const FLAG_UNIFORM: u8 = 4;

const MAGIC: [u8; 4] = *b"ZREC";
/// Where the reserved bytes of plain version 3 begin.
const RESERVED: usize = 22;

/// The committed state of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) codec: Codec,
    pub(crate) tail_chunk: u32,
    pub(crate) tail_offset: u32,
    pub(crate) length: u64,
    pub(crate) flags: u8,
    pub(crate) generation: u32,
}

/// Who wrote the header last, as far as its own bytes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderState {
    /// Ours: the CRC matches.
    Ours,
    /// A plain version 3 writer's store: all reserved bytes are zero.
    Plain,
    /// The CRC does not match: rewritten by a plain writer, or damaged.
    Mismatch,
}

/// Why bytes are no header at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    Magic([u8; 4]),
    Version(u8),
    Codec(u8),
    /// An extension version later than this code.
    Extension(u8),
}

impl Header {
    pub(crate) const SIZE: usize = 32;

    /// The header of a store without records.
    pub(crate) fn empty(codec: Codec) -> Self {
        Self { codec, tail_chunk: 0, tail_offset: 0, length: 0, flags: FLAG_SUMS, generation: 0 }
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 4, &[FORMAT_VERSION, self.codec.tag()]);
        put(&mut bytes, 6, &self.tail_chunk.to_le_bytes());
        put(&mut bytes, 10, &self.tail_offset.to_le_bytes());
        put(&mut bytes, 14, &self.length.to_le_bytes());
        put(&mut bytes, 22, &[EXTENSION, self.flags]);
        put(&mut bytes, 24, &self.generation.to_le_bytes());
        let crc = crc32c(bytes.split_at(28).0);
        put(&mut bytes, 28, &crc.to_le_bytes());
        bytes
    }

    /// The generation in the bytes of a header, whoever wrote them.
    pub(crate) fn stated_generation(bytes: &[u8; Self::SIZE]) -> u32 {
        u32_at(bytes, 24)
    }

    /// Flags and generation are meaningful only in state [`HeaderState::Ours`]; elsewhere they are zero.
    pub(crate) fn decode(bytes: &[u8; Self::SIZE]) -> Result<(Self, HeaderState), HeaderFault> {
        let magic: [u8; 4] = take(bytes, 0);
        if magic != MAGIC {
            return Err(HeaderFault::Magic(magic));
        }
        let [version, tag, extension, flags] = [4, 5, 22, 23].map(|at| take::<1>(bytes, at)[0]);
        if version != FORMAT_VERSION {
            return Err(HeaderFault::Version(version));
        }
        let codec = Codec::from_tag(tag).ok_or(HeaderFault::Codec(tag))?;
        let state = if bytes.split_at(RESERVED).1.iter().all(|&b| b == 0) {
            HeaderState::Plain
        } else if crc32c(bytes.split_at(28).0) != u32_at(bytes, 28) {
            HeaderState::Mismatch
        } else if extension == EXTENSION {
            HeaderState::Ours
        } else {
            return Err(HeaderFault::Extension(extension));
        };
        let ours = state == HeaderState::Ours;
        let header = Self {
            codec,
            tail_chunk: u32_at(bytes, 6),
            tail_offset: u32_at(bytes, 10),
            length: u64_at(bytes, 14),
            flags: if ours { flags & (FLAG_SUMS | FLAG_SHAPES | FLAG_UNIFORM) } else { 0 },
            generation: if ours { u32_at(bytes, 24) } else { 0 },
        };
        Ok((header, state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Header {
        Header {
            tail_chunk: 7,
            tail_offset: 99,
            length: 1 << 40,
            generation: 3,
            ..Header::empty(Codec::Zstd)
        }
    }

    #[test]
    fn round_trip() {
        assert_eq!(Header::decode(&sample().encode()), Ok((sample(), HeaderState::Ours)));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        for at in 0..Header::SIZE {
            for flip in [1, 0x80, 0xFF] {
                let mut bytes = sample().encode();
                bytes[at] ^= flip;
                if let Ok((_, state)) = Header::decode(&bytes) {
                    assert_eq!(state, HeaderState::Mismatch, "byte {at}");
                }
            }
        }
    }

    #[test]
    fn a_later_extension_is_refused() {
        let mut bytes = sample().encode();
        bytes[22] = 2;
        let crc = crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Header::decode(&bytes), Err(HeaderFault::Extension(2)));
    }

    #[test]
    fn a_plain_header_is_known_as_such() {
        let mut bytes = sample().encode();
        bytes[RESERVED..].fill(0);
        let (header, state) = Header::decode(&bytes).unwrap();
        assert_eq!((header.flags, header.length, state), (0, 1 << 40, HeaderState::Plain));
    }
}
