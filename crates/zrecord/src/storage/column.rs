//! A table of fixed-width entries cut into segments: `.loc`, `.sum`, `.shape`.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Directory, Entered, Map, Mapped, NumberedFiles, NumberedWriter};
use crate::error::{Error, Result};
use crate::prefetch::prefetch;

/// How a table is cut: entry width in bytes, entries of a segment as a power of two.
#[derive(Clone, Copy, Debug)]
struct Cut {
    width: u64,
    segment_bits: u32,
}

impl Cut {
    /// An entry's segment, and its first byte there.
    #[inline]
    fn place(self, index: u64) -> (u64, u64) {
        (index >> self.segment_bits, (index & (self.per_segment() - 1)) * self.width)
    }

    #[inline]
    fn per_segment(self) -> u64 {
        1 << self.segment_bits
    }

    /// Entries of `segment` in a table of `length`.
    fn entries(self, segment: u64, length: u64) -> u64 {
        length.saturating_sub(segment << self.segment_bits).min(self.per_segment())
    }

    /// How many of `bytes` bytes from entry `index` on lie in its segment.
    fn within(self, index: u64, bytes: usize) -> usize {
        let left = (self.per_segment() - (index & (self.per_segment() - 1))) * self.width;
        bytes.min(usize::try_from(left).unwrap_or(usize::MAX))
    }
}

/// The reading side of a table.
#[derive(Debug)]
pub(crate) struct Column {
    files: NumberedFiles,
    cut: Cut,
}

impl Column {
    pub(crate) fn new(
        dir: &Arc<dyn Directory>,
        extension: &'static str,
        width: usize,
        segment_bits: u32,
    ) -> Self {
        Self { files: NumberedFiles::new(dir, extension), cut: Cut { width: width as u64, segment_bits } }
    }

    /// Check that the entries `0..length` exist, looking at the last segment only.
    pub(crate) fn check_length(&self, length: u64) -> Result<()> {
        let Some(last) = length.checked_sub(1) else { return Ok(()) };
        let (segment, at) = self.cut.place(last);
        let (found, needed) = (self.files.length(segment)?, at + self.cut.width);
        if found < needed {
            let path = self.files.path(segment);
            return Err(Error::corrupt(
                path,
                "the length of a table",
                found,
                format!("at least {needed} bytes"),
            ));
        }
        Ok(())
    }

    /// The entries from `first` on that fill `out`.
    pub(crate) fn read_range(&self, first: u64, out: &mut [u8]) -> Result<()> {
        let mut index = first;
        let mut rest = out;
        while !rest.is_empty() {
            let (segment, at) = self.cut.place(index);
            let (now, later) = rest.split_at_mut(self.cut.within(index, rest.len()));
            let read = self.files.get(segment)?.file().read_at(now, at);
            read.map_err(|e| self.files.fail(segment, e))?;
            index += now.len() as u64 / self.cut.width;
            rest = later;
        }
        Ok(())
    }

    /// The record behind the last one whose entry lies in the same segment as that of `index`.
    pub(crate) fn segment_end(&self, index: u64) -> u64 {
        (index | (self.cut.per_segment() - 1)).saturating_add(1)
    }

    /// A length beyond which no entry exists.
    pub(crate) fn bound(&self) -> Result<u64> {
        let Some(segment) = self.files.numbers()?.into_iter().max() else { return Ok(0) };
        let first = segment.saturating_mul(self.cut.per_segment());
        Ok(first.saturating_add(self.files.length(segment)? / self.cut.width))
    }

    /// How many of `records`, which lie in one segment, have an entry in its file.
    pub(crate) fn existing(&self, records: &Range<u64>) -> Result<u64> {
        let (segment, at) = self.cut.place(records.start);
        let length = match self.files.length(segment) {
            // No file is as bad as an empty one.
            Err(Error::CorruptStore { .. }) => 0,
            length => length?,
        };
        Ok((length.saturating_sub(at) / self.cut.width).min(records.end - records.start))
    }

    /// The file with the entry of a record.
    pub(crate) fn path(&self, index: u64) -> PathBuf {
        self.files.path(self.cut.place(index).0)
    }

    /// Whether an entry is in memory, as far as can be told.
    pub(crate) fn is_at_hand(&self, index: u64) -> Result<bool> {
        let (segment, at) = self.cut.place(index);
        self.files.is_at_hand(segment, at)
    }

    /// Let the system read an entry that will be needed soon.
    pub(crate) fn ask(&self, index: u64) -> Result<()> {
        let (segment, at) = self.cut.place(index);
        self.files.ask(segment, at..at + self.cut.width)
    }

    /// A cursor for scattered reads of entries below `length`.
    pub(crate) fn view(&self, length: u64) -> ColumnView<'_> {
        ColumnView { column: self, length, segments: Entered::new() }
    }

    /// The segments that are open.
    pub(crate) fn opened(&self) -> Vec<Arc<Mapped>> {
        self.files.opened()
    }

    /// Forget what is open: the table was cut.
    pub(crate) fn forget(&self) {
        self.files.forget();
    }

    #[cold]
    fn short(&self, segment: u64) -> Error {
        self.files.fail(segment, std::io::ErrorKind::UnexpectedEof.into())
    }
}

/// A cursor over a column. Each segment is asked for its length once, when it is entered.
pub(crate) struct ColumnView<'a> {
    column: &'a Column,
    length: u64,
    segments: Entered<Segment>,
}

enum Segment {
    Map(Map),
    File(Arc<Mapped>),
}

impl ColumnView<'_> {
    /// Entry `index`, which must be below the view's length; `N` is the column's width.
    #[inline]
    pub(crate) fn get<const N: usize>(&mut self, index: u64) -> Result<[u8; N]> {
        let column = self.column;
        let (segment, at) = column.cut.place(index);
        let entered = match self.segments.last(segment) {
            Some(entered) => entered,
            None => self.enter(segment)?,
        };
        let mut out = [0; N];
        match entered {
            Segment::Map(map) => {
                let found = usize::try_from(at).ok().and_then(|at| map.get(at..at.checked_add(N)?));
                out.copy_from_slice(found.ok_or_else(|| column.short(segment))?);
            }
            Segment::File(file) => {
                file.file().read_at(&mut out, at).map_err(|e| column.files.fail(segment, e))?;
            }
        }
        Ok(out)
    }

    /// All entries, if they lie in one segment, which was entered and is mapped.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        match self.segments.last(0)? {
            Segment::Map(map) if self.length <= self.column.cut.per_segment() => Some(map),
            _ => None,
        }
    }

    /// Ask the processor for an entry that will be read soon.
    #[inline]
    pub(crate) fn prefetch(&self, index: u64) {
        let (segment, at) = self.column.cut.place(index);
        if let Some(Segment::Map(map)) = self.segments.last(segment)
            && let Ok(at) = usize::try_from(at)
        {
            prefetch(map, at, 1);
        }
    }

    #[cold]
    fn enter(&mut self, segment: u64) -> Result<&Segment> {
        let column = self.column;
        if self.segments.find(segment).is_none() {
            let file = column.files.get(segment)?;
            let needed = column.cut.entries(segment, self.length) * column.cut.width;
            let map = file.map(needed).map_err(|e| column.files.fail(segment, e))?;
            self.segments.put(segment, map.map_or(Segment::File(file), Segment::Map));
        }
        self.segments.last(segment).ok_or_else(|| column.short(segment))
    }
}

/// The writing side of a table.
#[derive(Debug)]
pub(crate) struct ColumnWriter {
    files: NumberedWriter,
    cut: Cut,
}

impl ColumnWriter {
    pub(crate) fn new(
        dir: &Arc<dyn Directory>,
        extension: &'static str,
        width: usize,
        segment_bits: u32,
    ) -> Self {
        Self { files: NumberedWriter::new(dir, extension), cut: Cut { width: width as u64, segment_bits } }
    }

    /// Overwrite or append the entries from `first` on.
    pub(crate) fn write(&mut self, first: u64, bytes: &[u8]) -> Result<()> {
        let mut index = first;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (segment, at) = self.cut.place(index);
            let (now, later) = rest.split_at(self.cut.within(index, rest.len()));
            self.files.write(segment, now, at)?;
            index += now.len() as u64 / self.cut.width;
            rest = later;
        }
        Ok(())
    }

    /// Cut the files to at most `length` entries; segments beyond go.
    pub(crate) fn cut(&mut self, length: u64) -> Result<()> {
        let segments = length.div_ceil(self.cut.per_segment());
        if let Some(last) = segments.checked_sub(1) {
            self.files.cut(last, self.cut.entries(last, length) * self.cut.width)?;
        }
        self.files.remove_from(segments)
    }

    /// Count all segments of a table of `length` as written to.
    pub(crate) fn touch(&mut self, length: u64) -> Result<()> {
        self.files.touch(0..length.div_ceil(self.cut.per_segment()))
    }

    /// Check that a table of `length` has all its segments. Opening looks at the last one only, and what is made a segment each must
    /// not be made for a length that somebody forged.
    pub(crate) fn check_segments(&self, length: u64) -> Result<()> {
        let needed = length.div_ceil(self.cut.per_segment());
        let found = self.files.count(needed)?;
        if found < needed {
            return Err(self.files.incomplete(found, needed));
        }
        Ok(())
    }

    /// Make sure that entries exist up to `length`; new ones are zero.
    pub(crate) fn extend(&mut self, length: u64) -> Result<()> {
        for segment in 0..length.div_ceil(self.cut.per_segment()) {
            self.files.extend(segment, self.cut.entries(segment, length) * self.cut.width)?;
        }
        Ok(())
    }

    /// Begin to make everything written durable.
    pub(crate) fn begin_sync(&self) {
        self.files.begin_sync_all();
    }

    /// Make everything written durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.files.sync()
    }
}
