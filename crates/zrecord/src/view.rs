//! A stretch of records as memory, without a copy: of a raw store whose records are all alike, and where maps are offered.

use std::fmt;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::format::{FLAG_SHAPES, Header, Shape, Sum};
use crate::layout::corrupt;
use crate::open::Open;
use crate::options::Verify;
use crate::pool;
use crate::storage::Map;
use crate::store::Store;
use crate::uniform::Uniform;

/// Records of a block that is checked by one thread at a time.
const BLOCK: u64 = 256;

/// The bytes of neighbouring records, in memory that shows the store's file.
///
/// As long as it lives, here or in a forked child, it is a reader of the store, like any open handle: nobody can delete from the store, or
/// compact it. What a foreign program does to the file shows: one that cuts it ends whoever looks at what is gone.
pub struct View {
    map: Map,
    bytes: Range<usize>,
    /// Its lock is what keeps the bytes where they are.
    reader: Store,
}

impl Drop for View {
    fn drop(&mut self) {
        self.reader.leave();
    }
}

impl View {
    /// The records one after another.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.map.get(self.bytes.clone()).unwrap_or_default()
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// The records of `range` as memory, checked now as the handle checks what it reads; `reader` is a handle of its own.
pub(crate) fn view(open: &Open, range: Range<u64>, reader: Store) -> Result<View> {
    let header = open.header();
    if range.end > header.length || range.start > range.end {
        let index = range.end.max(range.start);
        return Err(Error::IndexOutOfRange { index, length: header.length });
    }
    let refuse = |why: &str| Err(Error::InvalidArgument(format!("there is no view of these records: {why}")));
    let Some(uniform) = Uniform::known(open, &header)? else {
        return refuse(
            "it takes a raw store whose records all have one length, and that was never deleted from",
        );
    };
    let Some(last) = range.end.checked_sub(1).filter(|_| !range.is_empty()) else {
        return refuse("there are none");
    };
    let (from, to) = (uniform.entry(range.start), uniform.entry(last));
    if from.chunk != to.chunk {
        let first = uniform.first_of(to.chunk.into());
        return refuse(&format!("they lie in several files; the last one begins with record {first}"));
    }
    let chunk = u64::from(from.chunk);
    let map = open.chunks.get(chunk)?.map(to.end()).map_err(|e| open.chunks.fail(chunk, e))?;
    let Some(map) = map else { return refuse("the store is read without memory maps here") };
    if !reader.is_guarded()? {
        return refuse("no lock keeps them where they are on this file system");
    }
    let bytes = from.offset as usize..to.offset as usize + to.stored as usize;
    let view = View { map, bytes, reader };
    if open.verify.applies_to(&header) {
        check(open, &header, uniform, range, view.bytes())?;
    }
    Ok(view)
}

/// Check the records of `range`, whose bytes lie one after another.
fn check(open: &Open, header: &Header, uniform: Uniform, range: Range<u64>, bytes: &[u8]) -> Result<()> {
    let row = uniform.row() as usize;
    let firsts: Vec<u64> = range.clone().step_by(usize::try_from(BLOCK).unwrap_or(usize::MAX)).collect();
    let blocks: Vec<(u64, &[u8])> = firsts
        .into_iter()
        .zip(bytes.chunks(row.saturating_mul(usize::try_from(BLOCK).unwrap_or(usize::MAX))))
        .collect();
    let outcomes = pool::map(blocks.len(), &|i| {
        let Some(&(first, bytes)) = blocks.get(i) else { return Ok(()) };
        check_block(open, header, uniform, first, bytes)
    });
    outcomes.map_err(|e| Error::Internal(e.to_string()))?.into_iter().collect()
}

fn check_block(open: &Open, header: &Header, uniform: Uniform, first: u64, bytes: &[u8]) -> Result<()> {
    let mut sums = open.sum.view(header.length);
    let mut shapes = header.has(FLAG_SHAPES).then(|| open.shape.view(header.length));
    let mut checked = (open.verify == Verify::Once).then(|| open.checked.view());
    for (record, stored) in (first..).zip(bytes.chunks(uniform.row() as usize)) {
        if checked.as_mut().is_some_and(|checked| checked.contains(record)) {
            continue;
        }
        let entry = uniform.entry(record);
        let mut expected = Sum::decode(&sums.get(record)?);
        if let Some(shapes) = &mut shapes {
            expected = expected.with_shape(&Shape::decode(&shapes.get(record)?));
        }
        let found = Sum::of(stored, &entry);
        if found != expected {
            let (found, expected) = (format!("{:#010x}", found.0), format!("{:#010x}", expected.0));
            return Err(corrupt(open, record, &entry, "its checksum", found, expected));
        }
        if let Some(checked) = &mut checked {
            checked.insert(record);
        }
    }
    Ok(())
}
