//! What checking a whole store found.

use crate::error::Error;

/// The most problems that are kept word for word; the rest are counted.
const KEPT: usize = 100;

/// How far a check has come, in records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Records done.
    pub done: u64,
    /// Records in all.
    pub total: u64,
}

/// Told every few MiB how far the work is; `false` ends it with [`Error::Interrupted`].
pub type Watch<'a> = &'a mut dyn FnMut(Progress) -> bool;

/// What [`crate::verify`] found.
#[derive(Debug, Default)]
pub struct Report {
    /// Records that the store holds.
    pub records: u64,
    /// Of these, the ones whose table entries and bytes were read and are right, as far as can be told.
    pub sound: u64,
    /// Stored bytes that were read.
    pub bytes: u64,
    /// Whether every record has a checksum, and the dictionary if there is one. Without (after a plain version 3 writer) raw bytes can't be
    /// told from others.
    pub sums_known: bool,
    /// Whether a delete or compact was cut short. Records are not looked at then: `repair`, or opening to write, finishes it first.
    pub unfinished: bool,
    /// Appended records that no sync covered and that a crash left in part; they are no part of the store, and the next writer drops them.
    pub torn: u64,
    /// The damaged records, in ascending order.
    pub damaged: Vec<u64>,
    /// The first hundred problems.
    pub problems: Vec<Error>,
    /// How many problems there are.
    pub problem_count: u64,
}

impl Report {
    /// Whether nothing is wrong. Unknown checksums and torn appends are not.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problem_count == 0
    }

    pub(crate) fn add(&mut self, problem: Error) {
        self.problem_count += 1;
        if self.problems.len() < KEPT {
            self.problems.push(problem);
        }
    }

    pub(super) fn add_record(&mut self, record: u64, problem: Error) {
        self.damaged.push(record);
        self.add(problem);
    }
}
