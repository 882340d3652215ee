//! The one writer of a store: its lock, its files, its durable point.

use std::ops::Range;
use std::sync::Arc;

use super::behind::Behind;
use super::encode::Rooms;
use super::place::{Rows, Run};
use super::sync_ahead::SyncAhead;
use super::trial::Trial;
use crate::error::{Error, Result};
use crate::format::{Entry, FLAG_SHAPES, FLAG_SUMS, Header, HeaderState, Shape, Sum, SyncSlot, names};
use crate::lock;
use crate::open::{Found, Open};
use crate::options::Options;
use crate::recover::{self, Condition};
use crate::storage::{Access, ColumnWriter, Directory, File, NumberedWriter, remove_if_there};

/// Files open for writing, and what they hold. Dropping it gives the lock back.
#[derive(Debug)]
pub(crate) struct Writer {
    dir: Arc<dyn Directory>,
    lock: Arc<dyn File>,
    /// A forked child has copies of the descriptors, but is not the writer.
    process: u32,
    pub(crate) meta: Arc<dyn File>,
    slots: Arc<dyn File>,
    pub(crate) loc: ColumnWriter,
    pub(crate) sum: ColumnWriter,
    pub(crate) shape: ColumnWriter,
    pub(crate) chunks: NumberedWriter,
    pub(crate) header: Header,
    /// How far the disk is behind.
    behind: Behind,
    /// A sync that is under way, of what the next one would have to wait for.
    ahead: Option<SyncAhead>,
    /// The slot that was written last; its header is what is durable.
    slot: SyncSlot,
    /// Memory of one append that the next one uses again.
    pub(super) rooms: Rooms,
    pub(super) scratch: (Rows, Vec<Run>),
    /// What records so far say about how to encode the next ones.
    pub(super) trial: Trial,
}

impl Writer {
    /// Take the lock, finish what a crash left, and cut all files to their content.
    pub(crate) fn acquire(open: &Open, options: &Options) -> Result<Self> {
        let dir = &open.dir;
        let file = |name| dir.open(name, Access::Write).map_err(Error::io("open", dir.path().join(name)));
        // First what is there already: who may not write to it shall not make files either.
        let meta = file(names::META)?;
        let slots = file(names::SYNC)?;
        lock::mend(&**dir, &*slots)?;
        let lock = lock::write(&**dir)?;
        let found = Found::read(&**dir, &*open.meta)?;
        let column = |extension, width| ColumnWriter::new(dir, extension, width, options.segment_bits);
        let mut writer = Self {
            meta,
            slots,
            loc: column(names::LOC, Entry::SIZE),
            sum: column(names::SUM, Sum::SIZE),
            shape: column(names::SHAPE, Shape::SIZE),
            chunks: NumberedWriter::new(dir, names::CHUNK),
            header: found.header,
            slot: found.slot.unwrap_or(SyncSlot {
                header: Header::empty(open.codec),
                sequence: 0,
                level: open.level.unwrap_or(0),
                dict_crc: 0,
            }),
            rooms: Rooms::default(),
            scratch: (Rows::default(), Vec::new()),
            trial: Trial::default(),
            behind: Behind::default(),
            ahead: None,
            dir: dir.clone(),
            lock,
            process: std::process::id(),
        };
        writer.settle(open, &found)?;
        writer.slots.unlock().map_err(writer.fail("unlock", names::SYNC))?;
        Ok(writer)
    }

    fn settle(&mut self, open: &Open, found: &Found) -> Result<()> {
        let mut header = match recover::examine(open, found)? {
            Condition::Settled(header) => {
                recover::check_tail(open, found, &header)?;
                header
            }
            Condition::Tail { header, durable } => recover::cut_tail(open, &header, &durable)?,
            Condition::Unfinished(intent) => {
                // Its writer was perhaps killed before its name was durable, and below it is all that holds some records.
                self.sync_names()?;
                recover::replay(self, &intent)?;
                intent.header
            }
        };
        if header.length == 0 {
            header.flags = FLAG_SUMS;
        }
        let clean = found.state == HeaderState::Ours
            && header == found.header
            && found.slot.is_some_and(|slot| slot.header == header);
        if !clean {
            self.touch_all(&header)?;
            self.write_header(header)?;
            // Even if a slot has it already: the one that it replaces must not come back over what is appended from here on.
            self.sync_header()?;
        }
        self.header = header;
        self.sync()?;
        if found.slot_damaged {
            self.write_slot(self.slot)?;
        }
        // Also a slot that was found: its writer was perhaps killed before it was durable.
        self.sync_slots()?;
        // Only now: an older header may be the durable one until here, and need what goes.
        self.remove_leftovers()?;
        self.cut_files(&header)?;
        // Rows that were cut must not come back below the header of a later append.
        self.sync_tables()?;
        self.sync_names()
    }

    /// Remove a change that is done, and small files that never reached their names.
    fn remove_leftovers(&self) -> Result<()> {
        let small = [names::INTENT, names::DICT, names::SCHEMA, names::SYNC, names::META];
        for name in small.map(names::temporary).iter().map(String::as_str).chain([names::INTENT]) {
            remove_if_there(&*self.dir, name).map_err(self.fail("remove", name))?;
        }
        Ok(())
    }

    /// Cut off what lies behind the content of every file, and remove those that hold nothing.
    pub(crate) fn cut_files(&mut self, header: &Header) -> Result<()> {
        let kept = |flag| if header.has(flag) { header.length } else { 0 };
        self.loc.cut(header.length)?;
        self.sum.cut(kept(FLAG_SUMS))?;
        self.shape.cut(kept(FLAG_SHAPES))?;
        let tail = u64::from(header.tail_chunk);
        if header.tail_offset == 0 {
            return self.chunks.remove_from(tail);
        }
        self.chunks.cut(tail, header.tail_offset.into())?;
        self.chunks.remove_from(tail + 1)
    }

    /// Count every file after the durable point as written to: another process wrote them and didn't sync.
    fn touch_all(&mut self, header: &Header) -> Result<()> {
        let first_chunk =
            if self.slot.sequence == 0 { 0 } else { self.slot.header.tail_chunk.min(header.tail_chunk) };
        self.chunks.touch(first_chunk.into()..u64::from(header.tail_chunk) + 1)?;
        self.loc.touch(header.length)?;
        if header.has(FLAG_SUMS) {
            self.sum.touch(header.length)?;
        }
        if header.has(FLAG_SHAPES) {
            self.shape.touch(header.length)?;
        }
        Ok(())
    }

    pub(crate) fn belongs_here(&self) -> bool {
        self.process == std::process::id()
    }

    pub(crate) fn fail(
        &self,
        verb: &'static str,
        name: &str,
    ) -> impl FnOnce(std::io::Error) -> Error + use<> {
        Error::io(verb, self.dir.path().join(name))
    }

    /// The moment at which what was written becomes the store.
    pub(crate) fn write_header(&mut self, header: Header) -> Result<()> {
        self.meta.write_at(&header.encode(), 0).map_err(self.fail("write", names::META))?;
        self.header = header;
        Ok(())
    }

    /// The bytes in `range` of a chunk were written, and `left` bytes of the same append are to come: ask the disk for what is due.
    pub(super) fn wrote(&mut self, chunk: u64, range: Range<u64>, left: Option<u64>) -> Result<()> {
        let Some(due) = self.behind.wrote(chunk, range, left) else { return Ok(()) };
        self.chunks.begin_sync(chunk, due.begin);
        if due.finish { self.sync_ahead(chunk) } else { Ok(()) }
    }

    /// Sync a chunk while more is written.
    fn sync_ahead(&mut self, chunk: u64) -> Result<()> {
        let file = self.chunks.get(chunk)?;
        if self.ahead.is_none() {
            self.ahead = SyncAhead::start();
        }
        if let Some(ahead) = &self.ahead {
            ahead.add(chunk, file);
        }
        Ok(())
    }

    /// Wait for what is synced along the way, and hear how it went: the system tells a failure once, so it is the next sync's.
    pub(crate) fn end_sync_ahead(&mut self) -> Result<()> {
        let Some(ahead) = self.ahead.take() else { return Ok(()) };
        ahead.finish().map_err(|(chunk, e)| self.fail("sync", &format!("{chunk}.{}", names::CHUNK))(e))
    }

    /// Make everything durable but the header.
    pub(super) fn sync_records(&mut self) -> Result<()> {
        self.end_sync_ahead()?;
        self.chunks.begin_sync_all();
        for table in [&self.loc, &self.sum, &self.shape] {
            table.begin_sync();
        }
        self.chunks.sync()?;
        self.behind = Behind::default();
        self.sync_tables()?;
        self.sync_names()
    }

    pub(crate) fn sync_tables(&mut self) -> Result<()> {
        self.loc.sync()?;
        self.sum.sync()?;
        self.shape.sync()
    }

    /// Make files durable that were made since the last sync.
    pub(crate) fn sync_names(&self) -> Result<()> {
        self.dir.sync().map_err(Error::io("sync", self.dir.path()))
    }

    pub(crate) fn sync_header(&self) -> Result<()> {
        self.meta.sync().map_err(self.fail("sync", names::META))
    }

    /// Make everything up to the header durable, and say so in the older slot.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if self.slot.header == self.header && self.slot.sequence > 0 {
            return Ok(());
        }
        self.sync_records()?;
        self.sync_header()?;
        self.write_slot(SyncSlot { header: self.header, ..self.slot })
    }

    /// Whether the checksum of the dictionary is recorded.
    pub(crate) fn states_dictionary(&self) -> bool {
        self.slot.dict_crc != 0
    }

    /// Record the checksum of the dictionary (0: none that can be relied upon).
    pub(crate) fn note_dictionary(&mut self, dict_crc: u32) -> Result<()> {
        self.sync()?;
        self.write_slot(SyncSlot { dict_crc, ..self.slot })
    }

    fn write_slot(&mut self, slot: SyncSlot) -> Result<()> {
        let next = SyncSlot { sequence: self.slot.sequence.wrapping_add(1), ..slot };
        let mut bytes = next.encode().to_vec();
        // Both slots lie in the file from the start, each padded to its sector.
        bytes.resize(SyncSlot::STRIDE, 0);
        self.slots.write_at(&bytes, next.position()).map_err(self.fail("write", names::SYNC))?;
        self.sync_slots()?;
        self.slot = next;
        Ok(())
    }

    fn sync_slots(&self) -> Result<()> {
        self.slots.sync().map_err(self.fail("sync", names::SYNC))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Given back also where a forked child has a copy of the descriptor; the child itself has nothing to give.
        if self.belongs_here() {
            // Who wanted to hear how it went has synced.
            let _ = self.end_sync_ahead();
            // Without it the lock still goes with the last descriptor.
            let _ = self.lock.unlock();
        } else {
            // The thread is the parent's, and may have held what ending it takes when this process was forked.
            std::mem::forget(self.ahead.take());
        }
    }
}
