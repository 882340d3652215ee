//! What one block of a gather has entered: chunks, or segments of a table, each of which was asked for its length then.

/// By number; the one that was used last is at hand.
#[derive(Debug)]
pub(crate) struct Entered<T> {
    last: Option<(u64, T)>,
    /// Ascending, empty for the last one: a block enters few files, mostly one, and seldom a new one.
    others: Vec<(u64, Option<T>)>,
}

impl<T> Entered<T> {
    pub(crate) fn new() -> Self {
        Self { last: None, others: Vec::new() }
    }

    /// The file `number`, if it was used last.
    #[inline]
    pub(crate) fn last(&self, number: u64) -> Option<&T> {
        match &self.last {
            Some((last, file)) if *last == number => Some(file),
            _ => None,
        }
    }

    /// The file `number`, if it was entered; now it is the one that was used last.
    pub(crate) fn find(&mut self, number: u64) -> Option<&T> {
        if self.last(number).is_none() {
            let at = self.position(number).ok()?;
            let file = self.others.get_mut(at)?.1.take()?;
            self.put(number, file);
        }
        self.last(number)
    }

    /// Enter the file `number`, or enter it again.
    pub(crate) fn put(&mut self, number: u64, file: T) {
        let Some((left, file)) = self.last.replace((number, file)) else { return };
        if left == number {
            return;
        }
        let at = self.position(left).unwrap_or_else(|at| at);
        match self.others.get_mut(at) {
            Some((number, slot)) if *number == left => *slot = Some(file),
            _ => self.others.insert(at, (left, Some(file))),
        }
    }

    fn position(&self, number: u64) -> Result<usize, usize> {
        self.others.binary_search_by_key(&number, |&(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_entered_is_found_and_the_last_one_at_once() {
        let mut entered = Entered::new();
        for number in [5, 1, 9, 3] {
            assert_eq!(entered.find(number), None);
            entered.put(number, number * 10);
            assert_eq!(entered.last(number), Some(&(number * 10)));
        }
        for number in [9, 5, 1, 3] {
            assert_eq!(entered.last(number), None);
            assert_eq!(entered.find(number), Some(&(number * 10)));
            assert_eq!(entered.last(number), Some(&(number * 10)));
        }
        entered.put(9, 7);
        assert_eq!(entered.find(1), Some(&10));
        assert_eq!(entered.find(9), Some(&7));
        assert_eq!(entered.find(2), None);
        assert_eq!(entered.others.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 3, 5, 9]);
    }
}
