//! Which features records have, and of what lengths: what has to be known before streams can be made of them.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::tfrecord::columns::records;
use crate::tfrecord::example::{Kind, count, features};

/// More features than this are not features, but data in the wrong place.
const MOST: usize = 1 << 16;

/// A feature as the records have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: Vec<u8>,
    /// Its kind; None where no record has a list for it.
    pub kind: Option<Kind>,
    /// How many records have it, with a list.
    pub present: u64,
    /// The fewest values that a record has that has it.
    pub least: u64,
    /// The most.
    pub most: u64,
    /// The record that was first to have it.
    pub first: u64,
    last: u64,
}

/// The features of all records in `bytes`, of which record i takes `lengths[i]` bytes from `starts[i]` on, and is called `base + i`.
pub fn scan(bytes: &[u8], starts: &[u64], lengths: &[u64], base: u64) -> Result<Vec<Seen>> {
    let mut places: HashMap<&[u8], usize> = HashMap::new();
    let mut seen: Vec<Seen> = Vec::new();
    for (record, message) in records(bytes, starts, lengths, base) {
        features(record, message?, |name, list| {
            let place = *places.entry(name).or_insert(seen.len());
            if place == seen.len() {
                if place == MOST {
                    return Err(Error::TooManyFeatures { record, most: MOST });
                }
                seen.push(Seen::new(name, record));
            }
            let (Some(one), Some((kind, list))) = (seen.get_mut(place), list) else { return Ok(()) };
            let count =
                count(kind, list).ok_or(Error::NotAnExample { record, found: "a list of another kind" })?;
            one.meet(record, kind, count as u64)
        })?;
    }
    Ok(seen)
}

impl Seen {
    fn new(name: &[u8], record: u64) -> Self {
        Self {
            name: name.to_vec(),
            kind: None,
            present: 0,
            least: u64::MAX,
            most: 0,
            first: record,
            last: u64::MAX,
        }
    }

    fn meet(&mut self, record: u64, kind: Kind, count: u64) -> Result<()> {
        let expected = *self.kind.get_or_insert(kind);
        if kind != expected {
            return Err(kind_error(record, &self.name, kind, expected));
        }
        // A feature that a record has twice is there once.
        self.present += u64::from(self.last != record);
        self.last = record;
        self.least = self.least.min(count);
        self.most = self.most.max(count);
        Ok(())
    }
}

pub(crate) fn kind_error(record: u64, name: &[u8], found: Kind, expected: Kind) -> Error {
    let feature = String::from_utf8_lossy(name).into_owned();
    Error::Kind { record, feature, found: found.name(), expected: expected.name() }
}
