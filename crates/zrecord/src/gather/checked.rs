//! Which records a handle has checked: what `Verify::Once` goes by.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Records of a page: 8 KiB of bits.
const PAGE_BITS: u32 = 16;

type Page = Arc<[AtomicU64]>;

/// A bit a record, in pages that are made when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pages: RwLock<HashMap<u64, Page>>,
}

impl Checked {
    /// A cursor for scattered looks.
    pub(crate) fn view(&self) -> CheckedView<'_> {
        CheckedView { checked: self, page: None }
    }

    /// Records were moved: what was checked is elsewhere now.
    pub(crate) fn forget(&self) {
        self.pages.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Nobody is waited for: in a forked child the lock may be held for ever by a thread of the parent. Records of a page that isn't kept
    /// are checked again.
    fn page(&self, number: u64) -> Page {
        let known = self.pages.try_read().ok().and_then(|pages| pages.get(&number).cloned());
        if let Some(page) = known {
            return page;
        }
        let words = 0..1_u64 << (PAGE_BITS - u64::BITS.ilog2());
        let fresh: Page = words.map(|_| AtomicU64::new(0)).collect();
        match self.pages.try_write() {
            Ok(mut pages) => pages.entry(number).or_insert(fresh).clone(),
            Err(_) => fresh,
        }
    }
}

/// Keeps the page that was looked at last.
#[derive(Debug)]
pub(crate) struct CheckedView<'a> {
    checked: &'a Checked,
    page: Option<(u64, Page)>,
}

impl CheckedView<'_> {
    pub(crate) fn contains(&mut self, record: u64) -> bool {
        let (word, bit) = self.place(record);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0)
    }

    pub(crate) fn insert(&mut self, record: u64) {
        let (word, bit) = self.place(record);
        if let Some(word) = word {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn place(&mut self, record: u64) -> (Option<&AtomicU64>, u64) {
        let number = record >> PAGE_BITS;
        if self.page.as_ref().is_none_or(|(held, _)| *held != number) {
            self.page = Some((number, self.checked.page(number)));
        }
        let within = record & ((1 << PAGE_BITS) - 1);
        let word = usize::try_from(within / u64::from(u64::BITS)).unwrap_or_default();
        let page = self.page.as_ref().map(|(_, page)| page);
        (page.and_then(|page| page.get(word)), 1 << (within % u64::from(u64::BITS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_never_given_back_is_not_waited_for() {
        let checked = Checked::default();
        let forked = checked.pages.write().unwrap();
        let mut view = checked.view();
        assert!(!view.contains(5));
        view.insert(5);
        assert!(view.contains(5));
        drop(forked);
        assert!(!checked.view().contains(5), "a page that isn't kept");
    }

    #[test]
    fn a_record_is_checked_from_its_insertion_on() {
        let checked = Checked::default();
        let records = [0, 1, 63, 64, 65_535, 65_536, 1 << 40, u64::MAX];
        for (i, &record) in records.iter().enumerate() {
            let mut view = checked.view();
            assert!(records[..i].iter().all(|&other| view.contains(other)));
            assert!(records[i..].iter().all(|&other| !view.contains(other)));
            view.insert(record);
        }
        checked.forget();
        assert!(records.iter().all(|&record| !checked.view().contains(record)));
    }
}
