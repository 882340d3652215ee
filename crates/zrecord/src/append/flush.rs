//! Stage three: bytes to the chunk files and rows to the tables, behind everything committed.

use super::Writer;
use super::encode::{Block, Rooms};
use super::place::{self, Rows, Run};
use crate::error::Result;
use crate::format::{FLAG_SUMS, Header};
use crate::uniform::Growing;

/// Rows that are held back: together they are one large write.
const HELD_ROWS: usize = 1 << 16;

/// An append of fewer bytes has no end that the disk is hurried for: it is one of many, or soon done.
const LARGE_BYTES: usize = 32 << 20;

/// What takes the blocks of an append in their order.
pub(super) struct Flush<'a> {
    pub(super) writer: &'a mut Writer,
    /// The header with what was flushed.
    pub(super) header: Header,
    chunk_limit: u32,
    rooms: &'a Rooms,
    rows: Rows,
    runs: Vec<Run>,
    /// Whether the records stay all alike.
    growing: Growing,
    /// Bytes of the records that are still to come, where these are many.
    left: Option<u64>,
}

impl<'a> Flush<'a> {
    /// `bytes` of records are to come.
    pub(super) fn new(
        writer: &'a mut Writer,
        growing: Growing,
        chunk_limit: u32,
        rooms: &'a Rooms,
        bytes: usize,
    ) -> Self {
        let header = writer.header;
        let (rows, runs) = std::mem::take(&mut writer.scratch);
        let left = (bytes >= LARGE_BYTES).then_some(bytes as u64);
        Self { writer, header, chunk_limit, rooms, rows, runs, growing, left }
    }

    /// Write a block's bytes; nobody sees any of it before the header is written.
    pub(super) fn take(&mut self, block: Block<'_>) -> Result<()> {
        self.runs.clear();
        self.left = self.left.map(|left| left.saturating_sub(block.logical()));
        let (rows, runs) = (&mut self.rows, &mut self.runs);
        place::place(&mut self.header, &block, self.chunk_limit, rows, runs, &mut self.growing)?;
        for run in &self.runs {
            let bytes = block.bytes().get(run.bytes.clone()).unwrap_or_default();
            self.writer.chunks.write(run.chunk.into(), bytes, run.offset.into())?;
            let start = u64::from(run.offset);
            self.writer.wrote(run.chunk.into(), start..start + bytes.len() as u64, self.left)?;
        }
        self.rooms.give_back(block.room);
        if self.rows.entries.len() >= HELD_ROWS { self.write_rows() } else { Ok(()) }
    }

    fn write_rows(&mut self) -> Result<()> {
        let first = self.header.length - self.rows.entries.len() as u64;
        self.writer.loc.write(first, self.rows.entries.as_flattened())?;
        if self.header.has(FLAG_SUMS) {
            self.writer.sum.write(first, self.rows.sums.as_flattened())?;
        }
        self.rows.entries.clear();
        self.rows.sums.clear();
        Ok(())
    }

    /// Write the rows that were held back; the header that counts all records.
    pub(super) fn finish(mut self) -> Result<Header> {
        self.write_rows()?;
        self.runs.clear();
        self.writer.scratch = (self.rows, self.runs);
        Ok(self.growing.flag(self.header))
    }
}
