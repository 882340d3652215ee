//! Where records lie: table entries, and the sums that go with them. Everything read here is hostile until it is checked.

use super::checked::CheckedView;
use crate::error::Result;
use crate::format::{Entry, FLAG_SHAPES, Header, Shape, Sum};
use crate::layout::{lies_within, misplaced};
use crate::open::Open;
use crate::options::Verify;
use crate::storage::ColumnView;

/// A record, found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Located {
    pub(super) record: u64,
    pub(super) entry: Entry,
    /// What its bytes must sum up to, where that is known and to be checked.
    pub(super) sum: Option<Sum>,
}

pub(super) struct Locator<'a> {
    open: &'a Open,
    header: &'a Header,
    entries: ColumnView<'a>,
    sums: Option<ColumnView<'a>>,
    /// Only to check: a sum covers the shape.
    shapes: Option<ColumnView<'a>>,
    /// What needs no check any more.
    checked: Option<CheckedView<'a>>,
}

impl<'a> Locator<'a> {
    pub(super) fn new(open: &'a Open, header: &'a Header, verify: Verify) -> Self {
        let checked = verify.applies_to(header);
        Self {
            open,
            header,
            entries: open.loc.view(header.length),
            sums: checked.then(|| open.sum.view(header.length)),
            shapes: (checked && header.has(FLAG_SHAPES)).then(|| open.shape.view(header.length)),
            checked: (checked && verify == Verify::Once).then(|| open.checked.view()),
        }
    }

    /// Ask for the table entries of a record that will be located soon.
    #[inline]
    pub(super) fn prefetch(&self, record: u64) {
        self.entries.prefetch(record);
        for view in [&self.sums, &self.shapes].into_iter().flatten() {
            view.prefetch(record);
        }
    }

    #[inline]
    pub(super) fn locate(&mut self, record: u64) -> Result<Located> {
        let entry = Entry::decode(&self.entries.get(record)?);
        if !lies_within(&entry, self.header) {
            return Err(misplaced(self.open, self.header, record, &entry));
        }
        if self.checked.as_mut().is_some_and(|checked| checked.contains(record)) {
            return Ok(Located { record, entry, sum: None });
        }
        let mut sum = match &mut self.sums {
            Some(sums) => Some(Sum::decode(&sums.get(record)?)),
            None => None,
        };
        if let (Some(sum), Some(shapes)) = (&mut sum, &mut self.shapes) {
            *sum = sum.with_shape(&Shape::decode(&shapes.get(record)?));
        }
        Ok(Located { record, entry, sum })
    }
}
