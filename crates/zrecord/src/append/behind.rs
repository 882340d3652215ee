//! How far the disk is behind what was appended, and when it is asked to go on: after so many bytes, be they of one append or of many.

use std::ops::Range;

/// Bytes of a chunk after which the disk begins with them while more is appended: a sync, with which all writing ends sooner or later, then finds little
/// to do.
const BEGUN_BYTES: u64 = 8 << 20;

/// Bytes after which the disk is made to finish with them, too.
const SYNCED_BYTES: u64 = 32 << 20;

/// What was written since the disk was asked last.
#[derive(Debug, Default)]
pub(super) struct Behind {
    /// The chunk that was written to, and what of it the disk has not begun with.
    chunk: u64,
    waiting: Range<u64>,
    /// Bytes that the disk has begun with since it was made to finish.
    begun: u64,
}

/// What the disk is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// Bytes of the chunk to begin with.
    pub(super) begin: Range<u64>,
    /// Whether to finish with all that it has begun with.
    pub(super) finish: bool,
}

impl Behind {
    /// Count the bytes in `range` of a chunk, which were written just now. `left` bytes of the same append are to come: towards the end of one
    /// that is large the disk is made to finish more often, so that the sync after it has little to wait for.
    pub(super) fn wrote(&mut self, chunk: u64, range: Range<u64>, left: Option<u64>) -> Option<Due> {
        if self.chunk != chunk || self.waiting.end != range.start {
            (self.chunk, self.waiting) = (chunk, range.start..range.start);
        }
        self.waiting.end = range.end;
        let bytes = self.waiting.end - self.waiting.start;
        if bytes < BEGUN_BYTES {
            return None;
        }
        self.begun += bytes;
        let enough = left.map_or(SYNCED_BYTES, |left| (left / 4).clamp(BEGUN_BYTES, SYNCED_BYTES));
        let finish = self.begun >= enough;
        if finish {
            self.begun = 0;
        }
        let begin = std::mem::replace(&mut self.waiting, range.end..range.end);
        Some(Due { begin, finish })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// What is due, in MiB, of runs that follow one another.
    fn due(
        behind: &mut Behind,
        runs: impl IntoIterator<Item = u64>,
        left: Option<u64>,
    ) -> Vec<(Range<u64>, bool)> {
        let mut at = behind.waiting.end;
        let mut found = Vec::new();
        for run in runs {
            found.extend(behind.wrote(0, at..at + run, left));
            at += run;
        }
        found.into_iter().map(|due| (due.begin.start / MIB..due.begin.end / MIB, due.finish)).collect()
    }

    #[test]
    fn many_small_appends_count_as_one_large_one() {
        let expected = [(0..8, false), (8..16, false), (16..24, false), (24..32, true), (32..40, false)];
        for (run, times) in [(1, 40), (2, 20), (4, 10), (8, 5)] {
            assert_eq!(due(&mut Behind::default(), vec![run * MIB; times], None), expected);
        }
    }

    #[test]
    fn towards_its_end_an_append_is_finished_with_more_often() {
        let mut behind = Behind::default();
        assert_eq!(due(&mut behind, [8 * MIB; 4], Some(1 << 30)).last(), Some(&(24..32, true)));
        assert_eq!(due(&mut behind, [8 * MIB; 2], Some(64 * MIB)), [(32..40, false), (40..48, true)]);
        assert_eq!(due(&mut behind, [8 * MIB], Some(0)), [(48..56, true)]);
    }

    #[test]
    fn what_does_not_follow_begins_anew() {
        let mut behind = Behind::default();
        assert_eq!(behind.wrote(0, 0..7 * MIB, None), None);
        // Another chunk; a tail that went back.
        assert_eq!(behind.wrote(1, 0..7 * MIB, None), None);
        assert_eq!(behind.wrote(1, 3 * MIB..10 * MIB, None), None);
        let begin = 3 * MIB..11 * MIB;
        assert_eq!(behind.wrote(1, 10 * MIB..11 * MIB, None), Some(Due { begin, finish: false }));
    }
}
