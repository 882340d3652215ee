//! Stage four, the only place where data becomes real: table, sums, shapes, then the header.

use super::Writer;
use crate::error::Result;
use crate::format::{Entry, FLAG_SHAPES, FLAG_SUMS, Header, Shape, Sum};

/// Make the records that were flushed the store's: `header` is the header with them.
pub(super) fn commit(
    writer: &mut Writer,
    mut header: Header,
    entries: &[Entry],
    sums: &[Sum],
    shapes: Option<&[Shape]>,
) -> Result<()> {
    let first = writer.header.length;
    let bytes: Vec<u8> = entries.iter().flat_map(Entry::encode).collect();
    writer.loc.write(first, &bytes)?;
    if header.has(FLAG_SUMS) {
        let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.encode()).collect();
        writer.sum.write(first, &bytes)?;
    }
    let shaped = shapes.is_some_and(|shapes| shapes.iter().any(|shape| !shape.is_plain()));
    if header.has(FLAG_SHAPES) || shaped {
        if !header.has(FLAG_SHAPES) {
            // The records before are one-dimensional: their entries are zero.
            writer.shape.set_length(0)?;
            writer.shape.extend(first)?;
            header.flags |= FLAG_SHAPES;
        }
        let plain = vec![Shape::default(); entries.len()];
        let bytes: Vec<u8> = shapes.unwrap_or(&plain).iter().flat_map(Shape::encode).collect();
        writer.shape.write(first, &bytes)?;
    }
    writer.write_header(header)
}
