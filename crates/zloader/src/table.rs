//! A choice of records: what is drawn is a place in a list of record numbers.

use crate::error::{Error, Result};

/// Record numbers, in four bytes each where all of them fit.
#[derive(Debug)]
pub struct Table(Entries);

#[derive(Debug)]
enum Entries {
    Narrow(Box<[u32]>),
    Wide(Box<[u64]>),
}

impl Table {
    /// A copy of a list.
    #[must_use]
    pub fn new(records: &[u64]) -> Self {
        let narrow: Option<Box<[u32]>> = records.iter().map(|&record| u32::try_from(record).ok()).collect();
        Self(narrow.map_or_else(|| Entries::Wide(records.into()), Entries::Narrow))
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.0 {
            Entries::Narrow(entries) => entries.len() as u64,
            Entries::Wide(entries) => entries.len() as u64,
        }
    }

    /// Whether it has no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record at a place.
    #[must_use]
    pub fn get(&self, place: u64) -> Option<u64> {
        let place = usize::try_from(place).ok()?;
        match &self.0 {
            Entries::Narrow(entries) => entries.get(place).copied().map(u64::from),
            Entries::Wide(entries) => entries.get(place).copied(),
        }
    }

    /// Put the record in the place of its place.
    pub(crate) fn look_up(&self, index: &mut u64) -> Result<()> {
        let beyond = || Error::Internal(format!("entry {index} of a table of {} was drawn", self.len()));
        *index = self.get(*index).ok_or_else(beyond)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_narrow_where_all_fit() {
        for (records, narrow) in
            [(vec![], true), (vec![3, 0, u64::from(u32::MAX)], true), (vec![1, 1 << 32], false)]
        {
            let table = Table::new(&records);
            assert_eq!(matches!(table.0, Entries::Narrow(_)), narrow, "{records:?}");
            let found: Vec<u64> = (0..table.len()).map(|place| table.get(place).unwrap()).collect();
            assert_eq!(found, records);
            assert_eq!(table.get(table.len()), None);
            assert!(table.look_up(&mut u64::MAX.clone()).is_err());
        }
    }
}
