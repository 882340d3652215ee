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
    let plain = vec![Shape::default(); entries.len()];
    let shapes = shapes.unwrap_or(&plain);
    if header.has(FLAG_SUMS) {
        let sums = sums.iter().zip(shapes).map(|(sum, shape)| sum.with_shape(shape));
        let bytes: Vec<u8> = sums.flat_map(Sum::encode).collect();
        writer.sum.write(first, &bytes)?;
    }
    if header.has(FLAG_SHAPES) || shapes.iter().any(|shape| !shape.is_plain()) {
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
        let bytes: Vec<u8> = shapes.iter().flat_map(Shape::encode).collect();
        writer.shape.write(first, &bytes)?;
    }
    if !header.has(FLAG_SUMS) {
        // After a power cut nothing could tell whether these records were really written, so they are before they are seen.
        writer.chunks.sync()?;
        writer.sync_tables()?;
        writer.sync_names()?;
    }
    writer.write_header(header)
}
