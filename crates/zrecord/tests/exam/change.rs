//! Changes to files: every byte, every length.

use std::collections::BTreeMap;
use std::ops::Range;

/// A store's files.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// What is done to one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// `again` if it isn't the first value that the byte is changed to.
    Byte {
        at: usize,
        value: u8,
        again: bool,
    },
    Cut(usize),
    Extend(usize),
    Remove,
}

impl Change {
    /// The file afterwards; `None` if it is gone.
    pub(crate) fn apply(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = bytes.to_vec();
        match self {
            Self::Byte { at, value, .. } => bytes[at] = value,
            Self::Cut(length) => bytes.truncate(length),
            Self::Extend(count) => bytes.extend([7, 0, 255, 1].into_iter().cycle().take(count)),
            Self::Remove => return None,
        }
        Some(bytes)
    }

    /// Whether the same byte was changed before.
    pub(crate) fn is_again(self) -> bool {
        matches!(self, Self::Byte { again: true, .. })
    }

    /// The bytes of a file of `length` that are not what they were; those of an extension were nobody's.
    pub(crate) fn range(self, length: usize) -> Range<usize> {
        match self {
            Self::Byte { at, .. } => at..at + 1,
            Self::Cut(cut) => cut..length,
            Self::Extend(_) => 0..0,
            Self::Remove => 0..length,
        }
    }
}

/// All changes of a file: no file at all, junk behind it, each length, and each byte to each of some values.
pub(crate) fn changes(name: &str, bytes: &[u8]) -> Vec<Change> {
    let mut changes = vec![Change::Remove];
    changes.extend([1, 7, 64, 5000].map(Change::Extend));
    changes.extend((0..bytes.len()).map(Change::Cut));
    for (at, &byte) in bytes.iter().enumerate() {
        let values = values(byte, at);
        // What pads the slots is looked at by nobody.
        let padding = name == "sync.zr" && at % 512 >= 52;
        let some = if padding { 1 } else { values.len() };
        let change = |(&value, again)| Change::Byte { at, value, again };
        changes.extend(values[..some].iter().zip([false, true, true, true]).map(change));
    }
    changes
}

/// What a byte is changed to, another one first for each place.
fn values(byte: u8, at: usize) -> Vec<u8> {
    let mut values = vec![byte ^ 1, byte ^ 0x80, 0, 0xFF];
    values.sort_unstable();
    values.dedup();
    values.retain(|&value| value != byte);
    let first = at % values.len();
    values.rotate_left(first);
    values
}
