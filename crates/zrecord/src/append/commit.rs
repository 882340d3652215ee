//! Stage four, the only place where data becomes real: shapes, then the header.

use super::Writer;
use crate::error::Result;
use crate::format::{FLAG_SHAPES, FLAG_SUMS, Header, Shape};

/// Shapes of one write: 1 MiB.
const PIECE: usize = 1 << 15;

/// Make the records whose bytes and rows were flushed the store's: `header` is the header with them. `shapes` are theirs, if one of them says
/// something.
pub(super) fn commit(writer: &mut Writer, mut header: Header, shapes: Option<&[Shape]>) -> Result<()> {
    let first = writer.header.length;
    if header.has(FLAG_SHAPES) || shapes.is_some() {
        if !header.has(FLAG_SHAPES) {
            // The records before are one-dimensional: their entries are zero.
            writer.loc.check_segments(first)?;
            writer.shape.cut(0)?;
            writer.shape.extend(first)?;
            if first > 0 {
                // They may be durable already: a power cut must not take their shapes but leave the header below.
                writer.shape.sync()?;
                writer.sync_names()?;
            }
            header.flags |= FLAG_SHAPES;
        }
        write_shapes(writer, first, header.length, shapes)?;
    }
    if !header.has(FLAG_SUMS) {
        // After a power cut nothing could tell whether these records were really written, so they are before they are seen.
        writer.sync_records()?;
    }
    writer.write_header(header)
}

/// Write the shapes of the records `first..end`; without `shapes` they are one-dimensional.
fn write_shapes(writer: &mut Writer, first: u64, end: u64, shapes: Option<&[Shape]>) -> Result<()> {
    let mut at = first;
    while at < end {
        let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE);
        let start = usize::try_from(at - first).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = match shapes {
            Some(shapes) => shapes.iter().skip(start).take(count).flat_map(Shape::encode).collect(),
            None => vec![0; count * Shape::SIZE],
        };
        writer.shape.write(at, &bytes)?;
        at += count as u64;
    }
    Ok(())
}
