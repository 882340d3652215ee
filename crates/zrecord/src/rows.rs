//! Rows of the tables (entry, sum, shape), read and written in runs of consecutive records: what delete and compact move.

use crate::append::Writer;
use crate::error::Result;
use crate::format::{Change, Entry, FLAG_SHAPES, FLAG_SUMS, Header, Shape, Sum};
use crate::open::Open;
use crate::storage::{Column, ColumnWriter};

/// Rows of one read or write: 1 MiB of entries.
const PIECE: usize = 1 << 16;

/// Pass all entries of a table of `length` to `visit`, in order.
pub(crate) fn scan(open: &Open, length: u64, mut visit: impl FnMut(u64, Entry) -> Result<()>) -> Result<()> {
    let mut record = 0;
    while record < length {
        let count = usize::try_from(length - record).unwrap_or(usize::MAX).min(PIECE);
        for cell in cells(&open.loc, record, count)? {
            visit(record, Entry::decode(&cell))?;
            record += 1;
        }
    }
    Ok(())
}

/// The rows of `records`, which ascend. Sums and shapes that `header` doesn't keep are zero.
pub(crate) fn read(open: &Open, header: &Header, records: &[u64]) -> Result<Vec<Change>> {
    let mut rows = Vec::with_capacity(records.len());
    for run in records.chunk_by(|a, b| a.checked_add(1) == Some(*b)).flat_map(|run| run.chunks(PIECE)) {
        let Some(&first) = run.first() else { continue };
        let start = rows.len();
        for (&record, entry) in run.iter().zip(cells(&open.loc, first, run.len())?) {
            rows.push(Change {
                record,
                entry: Entry::decode(&entry),
                sum: Sum::default(),
                shape: Shape::default(),
            });
        }
        let new = rows.get_mut(start..).unwrap_or_default();
        if header.has(FLAG_SUMS) {
            for (row, sum) in new.iter_mut().zip(cells(&open.sum, first, run.len())?) {
                row.sum = Sum::decode(&sum);
            }
        }
        if header.has(FLAG_SHAPES) {
            for (row, shape) in new.iter_mut().zip(cells(&open.shape, first, run.len())?) {
                row.shape = Shape::decode(&shape);
            }
        }
    }
    Ok(rows)
}

fn cells<const N: usize>(column: &Column, first: u64, count: usize) -> Result<Vec<[u8; N]>> {
    let mut cells = vec![[0; N]; count];
    column.read_range(first, cells.as_flattened_mut())?;
    Ok(cells)
}

/// Write whole rows, sums and shapes where `header` keeps them.
pub(crate) fn write(writer: &mut Writer, header: &Header, rows: &[Change]) -> Result<()> {
    write_entries(writer, rows)?;
    if header.has(FLAG_SUMS) {
        write_cells(&mut writer.sum, rows, |row| row.sum.encode())?;
    }
    if header.has(FLAG_SHAPES) {
        write_cells(&mut writer.shape, rows, |row| row.shape.encode())?;
    }
    Ok(())
}

/// Write the entries of rows; their sums and shapes stay as they are.
pub(crate) fn write_entries(writer: &mut Writer, rows: &[Change]) -> Result<()> {
    write_cells(&mut writer.loc, rows, |row| row.entry.encode())
}

/// Turn the sums of one-dimensional records into those of records of `shapes`, one a record.
pub(crate) fn put_shapes_into_sums(open: &Open, writer: &mut Writer, shapes: &[Shape]) -> Result<()> {
    let mut first = 0;
    for shapes in shapes.chunks(PIECE) {
        let sums = cells(&open.sum, first, shapes.len())?;
        let sums = sums.iter().zip(shapes).map(|(sum, shape)| Sum::decode(sum).with_shape(shape).encode());
        writer.sum.write(first, sums.collect::<Vec<_>>().as_flattened())?;
        first += shapes.len() as u64;
    }
    Ok(())
}

/// Write sums, in any order of their records, and forget them.
pub(crate) fn write_sums(writer: &mut Writer, sums: &mut Vec<(u64, Sum)>) -> Result<()> {
    sums.sort_unstable_by_key(|&(record, _)| record);
    for run in sums.chunk_by(|a, b| a.0.checked_add(1) == Some(b.0)) {
        let Some(&(first, _)) = run.first() else { continue };
        let cells: Vec<[u8; Sum::SIZE]> = run.iter().map(|(_, sum)| sum.encode()).collect();
        writer.sum.write(first, cells.as_flattened())?;
    }
    sums.clear();
    Ok(())
}

fn write_cells<const N: usize>(
    column: &mut ColumnWriter,
    rows: &[Change],
    encode: impl Fn(&Change) -> [u8; N],
) -> Result<()> {
    let follows = |a: &Change, b: &Change| a.record.checked_add(1) == Some(b.record);
    for run in rows.chunk_by(follows).flat_map(|run| run.chunks(PIECE)) {
        let Some(first) = run.first() else { continue };
        let cells: Vec<[u8; N]> = run.iter().map(&encode).collect();
        column.write(first.record, cells.as_flattened())?;
    }
    Ok(())
}
