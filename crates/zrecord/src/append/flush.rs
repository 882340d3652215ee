//! Stage three: bytes to the chunk files and rows to the tables, behind everything committed.

use std::ops::{Range, RangeInclusive};

use super::Writer;
use super::encode::{Block, Rooms};
use super::place::{self, Rows, Run};
use crate::error::Result;
use crate::format::{FLAG_SUMS, Header};
use crate::uniform::Growing;

/// Rows that are held back: together they are one large write.
const HELD_ROWS: usize = 1 << 16;

/// Bytes of a chunk after which the disk begins with them while the next ones are encoded: a sync, which all large appends end with sooner or later, then
/// finds little to do. What is appended in small portions is left to the kernel's own measure.
const BEGUN_BYTES: u64 = 8 << 20;

/// Bytes after which the disk is made to finish with them, too, while the next ones are encoded. Towards the end of an append they get fewer, so that
/// the sync has little to wait for.
const SYNCED_BYTES: RangeInclusive<u64> = BEGUN_BYTES..=32 << 20;

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
    /// The chunk that is written to, and what was written there since the disk began with what lies before.
    waiting: (u32, Range<u64>),
    /// Bytes that the disk has begun with since it was made to finish.
    begun: u64,
    /// Bytes of the records that are still to come.
    left: u64,
}

impl<'a> Flush<'a> {
    /// `left` bytes of records are to come.
    pub(super) fn new(
        writer: &'a mut Writer,
        growing: Growing,
        chunk_limit: u32,
        rooms: &'a Rooms,
        left: usize,
    ) -> Self {
        let header = writer.header;
        let (rows, runs) = std::mem::take(&mut writer.scratch);
        let tail = u64::from(header.tail_offset);
        let waiting = (header.tail_chunk, tail..tail);
        let left = left as u64;
        Self { writer, header, chunk_limit, rooms, rows, runs, growing, waiting, begun: 0, left }
    }

    /// Write a block's bytes; nobody sees any of it before the header is written.
    pub(super) fn take(&mut self, block: Block<'_>) -> Result<()> {
        self.runs.clear();
        self.left = self.left.saturating_sub(block.logical());
        let (rows, runs) = (&mut self.rows, &mut self.runs);
        place::place(&mut self.header, &block, self.chunk_limit, rows, runs, &mut self.growing)?;
        for run in &self.runs {
            let bytes = block.bytes().get(run.bytes.clone()).unwrap_or_default();
            self.writer.chunks.write(run.chunk.into(), bytes, run.offset.into())?;
            let end = u64::from(run.offset) + bytes.len() as u64;
            let (chunk, waiting) = &mut self.waiting;
            if *chunk != run.chunk {
                (*chunk, *waiting) = (run.chunk, run.offset.into()..run.offset.into());
            }
            waiting.end = end;
            if waiting.end - waiting.start >= BEGUN_BYTES {
                self.writer.chunks.begin_sync(run.chunk.into(), waiting.clone());
                self.begun += waiting.end - waiting.start;
                waiting.start = end;
                if self.begun >= (self.left / 4).clamp(*SYNCED_BYTES.start(), *SYNCED_BYTES.end()) {
                    self.writer.sync_ahead(run.chunk.into())?;
                    self.begun = 0;
                }
            }
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
