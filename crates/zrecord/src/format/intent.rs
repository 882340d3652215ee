//! A table change under way: what `delete` and `compact` state before they touch entries of live records.

use super::bytes::{put, take, u32_at, u64_at};
use super::{Entry, Header, HeaderState, Shape, Sum};
use crate::checksum::crc32c;

const MAGIC: [u8; 4] = *b"ZINT";
const CHANGE: usize = 64;

/// Why entries change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntentKind {
    Delete,
    Move,
}

/// What record `record` is once the change is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) record: u64,
    pub(crate) entry: Entry,
    pub(crate) sum: Sum,
    pub(crate) shape: Shape,
}

/// The whole change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intent {
    pub(crate) kind: IntentKind,
    pub(crate) header: Header,
    pub(crate) changes: Vec<Change>,
    pub(crate) payload_chunk: u32,
    pub(crate) payload_offset: u32,
    pub(crate) payload: Vec<u8>,
}

impl Change {
    fn encode(&self) -> [u8; CHANGE] {
        let mut bytes = [0; CHANGE];
        put(&mut bytes, 0, &self.record.to_le_bytes());
        put(&mut bytes, 8, &self.entry.encode());
        put(&mut bytes, 24, &self.sum.encode());
        put(&mut bytes, 32, &self.shape.encode());
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        Self {
            record: u64_at(bytes, 0),
            entry: Entry::decode(&take(bytes, 8)),
            sum: Sum::decode(&take(bytes, 24)),
            shape: Shape::decode(&take(bytes, 32)),
        }
    }
}

impl Intent {
    /// Bytes before the changes.
    pub(crate) const FIXED: usize = 64;

    /// The generation that it leads to and the size of the whole file, from its first bytes, if these are an intent's.
    pub(crate) fn announced(start: &[u8]) -> Option<(u32, u64)> {
        let fixed = start.get(..Self::FIXED)?;
        let Ok((header, HeaderState::Ours)) = Header::decode(&take(fixed, 8)) else { return None };
        if take::<4>(fixed, 0) != MAGIC {
            return None;
        }
        let changes = u64_at(fixed, 40).checked_mul(CHANGE as u64)?;
        let size = changes.checked_add(u64_at(fixed, 48))?.checked_add(Self::FIXED as u64 + 4)?;
        Some((header.generation, size))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut fixed = [0; Self::FIXED];
        put(&mut fixed, 0, &MAGIC);
        let kind: u32 = match self.kind {
            IntentKind::Delete => 1,
            IntentKind::Move => 2,
        };
        put(&mut fixed, 4, &kind.to_le_bytes());
        put(&mut fixed, 8, &self.header.encode());
        put(&mut fixed, 40, &(self.changes.len() as u64).to_le_bytes());
        put(&mut fixed, 48, &(self.payload.len() as u64).to_le_bytes());
        put(&mut fixed, 56, &self.payload_chunk.to_le_bytes());
        put(&mut fixed, 60, &self.payload_offset.to_le_bytes());
        let mut bytes =
            Vec::with_capacity(Self::FIXED + CHANGE * self.changes.len() + self.payload.len() + 4);
        bytes.extend_from_slice(&fixed);
        for change in &self.changes {
            bytes.extend_from_slice(&change.encode());
        }
        bytes.extend_from_slice(&self.payload);
        let crc = crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` unless every byte is as it was written: an intent that was cut while it was written is no intent.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        let (fixed, rest) = body.split_at_checked(Self::FIXED)?;
        if crc32c(body) != u32_at(crc, 0) || take::<4>(fixed, 0) != MAGIC {
            return None;
        }
        let kind = match u32_at(fixed, 4) {
            1 => IntentKind::Delete,
            2 => IntentKind::Move,
            _ => return None,
        };
        let Ok((header, HeaderState::Ours)) = Header::decode(&take(fixed, 8)) else { return None };
        let changes = usize::try_from(u64_at(fixed, 40)).ok()?;
        let (table, payload) = rest.split_at_checked(changes.checked_mul(CHANGE)?)?;
        if payload.len() as u64 != u64_at(fixed, 48) {
            return None;
        }
        Some(Self {
            kind,
            header,
            changes: table.chunks_exact(CHANGE).map(Change::decode).collect(),
            payload_chunk: u32_at(fixed, 56),
            payload_offset: u32_at(fixed, 60),
            payload: payload.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Codec;

    fn sample() -> Intent {
        let change = |record| Change {
            record,
            entry: Entry { offset: 1, stored: 2, logical: 3, chunk: 4 },
            sum: Sum(5),
            shape: Shape([3, 1, 2, 0, 0, 0, 0, 0]),
        };
        Intent {
            kind: IntentKind::Move,
            header: Header::empty(Codec::ZstdDict),
            changes: vec![change(8), change(u64::MAX)],
            payload_chunk: 6,
            payload_offset: 7,
            payload: b"payload".to_vec(),
        }
    }

    #[test]
    fn round_trip() {
        let bytes = sample().encode();
        assert_eq!(Intent::announced(&bytes), Some((0, bytes.len() as u64)));
        assert_eq!(Intent::announced(&bytes[..60]), None);
        assert_eq!(Intent::decode(&bytes), Some(sample()));
    }

    #[test]
    fn a_cut_or_changed_intent_is_none() {
        let bytes = sample().encode();
        for cut in 0..bytes.len() {
            assert_eq!(Intent::decode(&bytes[..cut]), None, "cut at {cut}");
            let mut changed = bytes.clone();
            changed[cut] ^= 1;
            assert_eq!(Intent::decode(&changed), None, "byte {cut}");
        }
    }
}
