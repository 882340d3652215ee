//! A `tf.train.Example`: its features, and the values of one.
//!
//! Field 1 of `Example` is `Features`; its field 1 is a map entry of key (1) and `Feature` (2), which is one of `BytesList` (1),
//! `FloatList` (2) and `Int64List` (3), whose values are field 1, packed or not. Anything else makes it something else.

use crate::error::{Error, Result};
use crate::tfrecord::wire::{Field, Fields, varint};

/// Which list a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `bytes_list`.
    Bytes,
    /// `float_list`.
    Float,
    /// `int64_list`.
    Int64,
}

impl Kind {
    /// As options and messages spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Float => "float",
            Self::Int64 => "int64",
        }
    }
}

/// A feature's list, not yet parsed; `None` where it has none, which is as if it were not there.
pub(crate) type List<'a> = Option<(Kind, &'a [u8])>;

/// Call `each` with the name and the list of all features of the record. One that occurs twice counts as the last time.
pub(crate) fn features<'a>(
    record: u64,
    bytes: &'a [u8],
    mut each: impl FnMut(&'a [u8], List<'a>) -> Result<()>,
) -> Result<()> {
    let other = |found| Error::NotAnExample { record, found };
    for field in Fields::of(bytes) {
        let message = match field {
            Some((1, Field::Bytes(message))) => message,
            Some((2, Field::Bytes(_))) => return Err(other("a field 2, as of a tf.train.SequenceExample")),
            Some(_) => return Err(other("an unknown field")),
            None => return Err(other("bytes that are no protocol buffer")),
        };
        for field in Fields::of(message) {
            let Some((1, Field::Bytes(entry))) = field else {
                return Err(other("an unknown field among the features"));
            };
            let (name, list) = entry_of(entry).ok_or_else(|| other("a feature that is none"))?;
            each(name, list)?;
        }
    }
    Ok(())
}

fn entry_of(entry: &[u8]) -> Option<(&[u8], List<'_>)> {
    let (mut name, mut list) = (&[][..], None);
    for field in Fields::of(entry) {
        match field? {
            (1, Field::Bytes(bytes)) => name = bytes,
            (2, Field::Bytes(feature)) => list = list_of(feature)?,
            _ => return None,
        }
    }
    Some((name, list))
}

fn list_of(feature: &[u8]) -> Option<List<'_>> {
    let mut list = None;
    for field in Fields::of(feature) {
        let kind = match field? {
            (1, Field::Bytes(values)) => (Kind::Bytes, values),
            (2, Field::Bytes(values)) => (Kind::Float, values),
            (3, Field::Bytes(values)) => (Kind::Int64, values),
            _ => return None,
        };
        // A reader would have to merge two lists of one kind; nothing writes such.
        if list.replace(kind).is_some() {
            return None;
        }
    }
    Some(list)
}

/// How many values a list has. None where it is none.
pub(crate) fn count(kind: Kind, list: &[u8]) -> Option<usize> {
    let mut count = 0_usize;
    for field in Fields::of(list) {
        count += match (kind, field?) {
            (Kind::Bytes, (1, Field::Bytes(_)))
            | (Kind::Float, (1, Field::Word(_)))
            | (Kind::Int64, (1, Field::Varint(_))) => 1,
            (Kind::Float, (1, Field::Bytes(packed))) => exact_words(packed)?,
            (Kind::Int64, (1, Field::Bytes(packed))) => varints(packed)?,
            _ => return None,
        };
    }
    Some(count)
}

/// Append the values of a list of bytes, and the length of each; how many they are.
pub(crate) fn bytes_into(list: &[u8], values: &mut Vec<u8>, lengths: &mut Vec<i64>) -> Option<usize> {
    let before = lengths.len();
    for field in Fields::of(list) {
        let (1, Field::Bytes(value)) = field? else { return None };
        values.extend_from_slice(value);
        lengths.push(i64::try_from(value.len()).ok()?);
    }
    Some(lengths.len() - before)
}

/// Append the values of a list of floats; how many they are.
pub(crate) fn floats_into(list: &[u8], values: &mut Vec<f32>) -> Option<usize> {
    let before = values.len();
    for field in Fields::of(list) {
        match field? {
            (1, Field::Word(word)) => values.push(f32::from_le_bytes(word)),
            (1, Field::Bytes(packed)) => {
                let (words, []) = packed.as_chunks() else { return None };
                values.extend(words.iter().map(|word| f32::from_le_bytes(*word)));
            }
            _ => return None,
        }
    }
    Some(values.len() - before)
}

/// Append the values of a list of integers; how many they are.
pub(crate) fn integers_into(list: &[u8], values: &mut Vec<i64>) -> Option<usize> {
    let before = values.len();
    for field in Fields::of(list) {
        match field? {
            (1, Field::Varint(value)) => values.push(value.cast_signed()),
            (1, Field::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    values.push(varint(&mut packed)?.cast_signed());
                }
            }
            _ => return None,
        }
    }
    Some(values.len() - before)
}

fn exact_words(packed: &[u8]) -> Option<usize> {
    packed.len().is_multiple_of(4).then_some(packed.len() / 4)
}

fn varints(mut packed: &[u8]) -> Option<usize> {
    let mut count = 0;
    while !packed.is_empty() {
        varint(&mut packed)?;
        count += 1;
    }
    Some(count)
}
