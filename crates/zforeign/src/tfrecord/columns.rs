//! The features of many records as columns.

use crate::error::{Error, Result};
use crate::tfrecord::example::{Kind, bytes_into, features, floats_into, integers_into};
use crate::tfrecord::scan::kind_error;

/// The values of a feature, of all records one after another.
#[derive(Debug, PartialEq)]
pub enum Values {
    /// The bytes of all values, and how many bytes each value has.
    Bytes(Vec<u8>, Vec<i64>),
    /// Floats.
    Float(Vec<f32>),
    /// Integers.
    Int64(Vec<i64>),
}

/// A feature of all records.
#[derive(Debug, PartialEq)]
pub struct Column {
    /// How many values each record has; -1 where it doesn't have the feature.
    pub counts: Vec<i64>,
    /// The values.
    pub values: Values,
}

/// The features `wanted` of all records in `bytes`; others are passed over. Places as in [`crate::tfrecord::scan`].
pub fn columns(
    bytes: &[u8],
    starts: &[u64],
    lengths: &[u64],
    base: u64,
    wanted: &[(Vec<u8>, Kind)],
) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = wanted.iter().map(|(_, kind)| Column::new(*kind, starts.len())).collect();
    for (record, message) in records(bytes, starts, lengths, base) {
        for column in &mut columns {
            column.counts.push(-1);
        }
        features(record, message?, |name, list| {
            let found = wanted.iter().zip(&mut columns).find(|((wanted, _), _)| wanted == name);
            let (Some(((_, expected), column)), Some((kind, list))) = (found, list) else { return Ok(()) };
            if kind != *expected {
                return Err(kind_error(record, name, kind, *expected));
            }
            column.take(list).ok_or(Error::NotAnExample { record, found: "a list of another kind" })
        })?;
    }
    Ok(columns)
}

/// The bytes of each record, with its number.
pub(crate) fn records<'a>(
    bytes: &'a [u8],
    starts: &'a [u64],
    lengths: &'a [u64],
    base: u64,
) -> impl Iterator<Item = (u64, Result<&'a [u8]>)> {
    starts.iter().zip(lengths).enumerate().map(move |(at, (&start, &length))| {
        let end = start.checked_add(length).and_then(|end| usize::try_from(end).ok());
        let range = usize::try_from(start).ok().zip(end);
        let record = range.and_then(|(start, end)| bytes.get(start..end));
        (base.saturating_add(at as u64), record.ok_or(Error::Places { length: bytes.len() }))
    })
}

impl Column {
    fn new(kind: Kind, records: usize) -> Self {
        let values = match kind {
            Kind::Bytes => Values::Bytes(Vec::new(), Vec::new()),
            Kind::Float => Values::Float(Vec::new()),
            Kind::Int64 => Values::Int64(Vec::new()),
        };
        Self { counts: Vec::with_capacity(records), values }
    }

    /// The list of the last record, in place of one that it had before.
    fn take(&mut self, list: &[u8]) -> Option<()> {
        let last = self.counts.last_mut()?;
        self.values.drop_last(usize::try_from(*last).unwrap_or(0));
        let count = match &mut self.values {
            Values::Bytes(values, sizes) => bytes_into(list, values, sizes),
            Values::Float(values) => floats_into(list, values),
            Values::Int64(values) => integers_into(list, values),
        }?;
        *last = i64::try_from(count).ok()?;
        Some(())
    }
}

impl Values {
    fn drop_last(&mut self, count: usize) {
        match self {
            Self::Bytes(values, sizes) => {
                for size in sizes.split_off(sizes.len().saturating_sub(count)) {
                    values.truncate(values.len().saturating_sub(usize::try_from(size).unwrap_or(0)));
                }
            }
            Self::Float(values) => values.truncate(values.len().saturating_sub(count)),
            Self::Int64(values) => values.truncate(values.len().saturating_sub(count)),
        }
    }
}
