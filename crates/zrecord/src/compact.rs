//! Compaction: live records move to the front, in the order in which they lie, and what is left behind them is given back.
//!
//! What could go wrong: a cut in the middle must leave every record in one piece, at the place that its entry tells.
//! Records move in windows, and never to a later place, so the bytes between the end of the last window and the next record to
//! move are dead. A window whose destination is dead space is written and synced there before its entries change, one by one, each
//! in a sector's write: whichever entry a reader finds, its bytes are whole. They stay so at the old place until a later window needs
//! it, and that one waits for the entries to be durable. A window that would overwrite a part of its own source is stated first,
//! bytes included, as an intent.

use crate::append::Writer;
use crate::error::{Error, Result};
use crate::format::{Change, Entry, FLAG_UNIFORM, Header, Intent, IntentKind, Shape, Sum, names};
use crate::layout::{corrupt, lies_within, misplaced, overlap};
use crate::open::Open;
use crate::options::Options;
use crate::recover;
use crate::rows;
use crate::storage::{remove_if_there, replace};
use crate::uniform::Uniform;

/// Steps of a few records, so that small stores take many.
const SMALL: bool = cfg!(any(test, fuzzing));
/// Bytes that are moved in one step; a longer record is a step of its own.
const WINDOW_BYTES: u64 = if SMALL { 48 } else { 8 << 20 };
/// Records that are moved in one step: each takes 64 bytes in an intent.
const WINDOW_RECORDS: usize = if SMALL { 6 } else { 1 << 17 };

/// A live record and where it lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    record: u64,
    entry: Entry,
}

/// What the table says, all of it checked.
#[derive(Debug, Default)]
struct Survey {
    /// Records with bytes, in the order in which these lie.
    records: Vec<Place>,
    /// Records without.
    empty: Vec<Place>,
}

/// The first free byte behind the records that have found their place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor {
    chunk: u32,
    /// At most 2^32.
    offset: u64,
}

/// A run of records in the order in which they lie, to be put down one behind the other from `start` on.
#[derive(Clone, Copy, Debug)]
struct Window<'a> {
    start: Cursor,
    end: Cursor,
    records: &'a [Place],
}

/// Move all live records to the front and cut the chunk files to what is left. The caller has synced and holds the store alone.
///
/// Takes 24 bytes of memory a record, and twice a window (8 MiB, or the longest record). Nothing is changed if an entry or the
/// length of a chunk can't be right; a record whose bytes are damaged moves as it is. A chunk that is longer than
/// `options.chunk_limit` already is packed, not divided.
///
/// # Errors
/// After a failure in mid-way every record is in place, moved or not, once the store was opened by a writer again.
pub(crate) fn compact(open: &Open, writer: &mut Writer, options: &Options) -> Result<()> {
    let survey = survey(open, &writer.header)?;
    let before = Uniform::known(open, &writer.header)?.map(|_| writer.header);
    // A compaction that was killed may have left entries that are not durable, and only here somebody overwrites what they left.
    writer.loc.touch(writer.header.length)?;
    writer.write_header(next_generation(writer.header))?;
    writer.sync()?;

    let mut mover = Mover { open, writer, unsynced: None };
    let mut cursor = Cursor::default();
    let mut full = Vec::new();
    let mut rest = survey.records.as_slice();
    let mut moved = false;
    while let Some(first) = rest.first() {
        let start = cursor.place(first, options.chunk_limit);
        if start.chunk != cursor.chunk {
            full.push(cursor);
        }
        if start == first.start() {
            cursor = start.after(first);
            rest = rest.get(1..).unwrap_or_default();
            continue;
        }
        let window = Window::from(start, rest, options.chunk_limit);
        mover.step(&window)?;
        moved = true;
        cursor = window.end;
        rest = rest.get(window.records.len()..).unwrap_or_default();
    }
    finish(open, writer, cursor, &full, &survey.empty, before.filter(|_| !moved))
}

fn next_generation(header: Header) -> Header {
    let flags = header.flags & !FLAG_UNIFORM;
    Header { generation: header.generation.wrapping_add(1), flags, ..header }
}

/// Read and check the whole table: each record within the store and its chunk, no two on the same bytes.
fn survey(open: &Open, header: &Header) -> Result<Survey> {
    let mut survey = Survey::default();
    rows::scan(open, header.length, |record, entry| {
        let place = Place { record, entry };
        if !lies_within(&entry, header) {
            return Err(misplaced(open, header, record, &entry));
        }
        if entry.stored == 0 { &mut survey.empty } else { &mut survey.records }.push(place);
        Ok(())
    })?;
    survey.records.sort_unstable_by_key(Place::start);
    for (place, next) in survey.records.iter().zip(survey.records.iter().skip(1)) {
        if let Some(e) = overlap(open, (place.record, &place.entry), (next.record, &next.entry)) {
            return Err(e);
        }
    }
    for records in survey.records.chunk_by(|a, b| a.entry.chunk == b.entry.chunk) {
        let Some(last) = records.last() else { continue };
        let length = open.chunks.length(last.entry.chunk.into())?;
        if last.entry.end() > length {
            let found = format!("byte {}", last.entry.end());
            let expected = format!("at most {length}, the length of the chunk");
            return Err(corrupt(open, last.record, &last.entry, "its end", found, expected));
        }
    }
    Ok(survey)
}

impl Place {
    fn start(&self) -> Cursor {
        Cursor { chunk: self.entry.chunk, offset: self.entry.offset.into() }
    }
}

impl Cursor {
    /// Where a record goes that is the next in order: here, or to the start of the next chunk if it doesn't fit here; never behind
    /// the place where it lies, which is not before the cursor.
    fn place(self, record: &Place, limit: u32) -> Self {
        let fits = self.offset == 0 || self.after(record).offset <= limit.into();
        match self.chunk.checked_add(1) {
            Some(chunk) if !fits && chunk <= record.entry.chunk => Self { chunk, offset: 0 },
            _ => self,
        }
    }

    fn after(self, record: &Place) -> Self {
        Self { offset: self.offset.saturating_add(record.entry.stored.into()), ..self }
    }

    /// The offset as entries and headers hold it.
    fn offset(self) -> Result<u32> {
        u32::try_from(self.offset)
            .map_err(|_| Error::Internal("compaction moved a record beyond its chunk".to_owned()))
    }

    /// As the tail of a header: a chunk without a free byte is followed by the next one.
    fn tail(self) -> Result<(u32, u32)> {
        match (u32::try_from(self.offset), self.chunk.checked_add(1)) {
            (Ok(offset), _) => Ok((self.chunk, offset)),
            (Err(_), Some(next)) => Ok((next, 0)),
            (Err(_), None) => Err(Error::Internal("the last chunk there can be is full".to_owned())),
        }
    }
}

impl<'a> Window<'a> {
    /// The longest window of the first of `records`, which go to `start` and behind.
    fn from(start: Cursor, records: &'a [Place], limit: u32) -> Self {
        let mut end = start;
        let mut count = 0;
        for record in records.iter().take(WINDOW_RECORDS) {
            let after = end.after(record);
            if count > 0 && (after.offset - start.offset > WINDOW_BYTES || end.place(record, limit) != end) {
                break;
            }
            end = after;
            count += 1;
        }
        Self { start, end, records: records.get(..count).unwrap_or_default() }
    }

    /// Whether the destination covers bytes that are still to be moved.
    fn overwrites_itself(&self) -> bool {
        self.records
            .first()
            .is_some_and(|first| first.entry.chunk == self.end.chunk && first.start() < self.end)
    }

    /// The records' new entries, by record.
    fn entries(&self) -> Result<Vec<Change>> {
        let mut at = self.start;
        let mut changes = Vec::with_capacity(self.records.len());
        for place in self.records {
            let entry = Entry { chunk: at.chunk, offset: at.offset()?, ..place.entry };
            changes.push(Change {
                record: place.record,
                entry,
                sum: Sum::default(),
                shape: Shape::default(),
            });
            at = at.after(place);
        }
        changes.sort_unstable_by_key(|change| change.record);
        Ok(changes)
    }

    /// The records' bytes, one record behind the other; those that lie so already are read at once.
    fn read(&self, open: &Open) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        for run in self.records.chunk_by(|a, b| a.start().after(a) == b.start()) {
            let Some(first) = run.first() else { continue };
            let chunk = u64::from(first.entry.chunk);
            let start = bytes.len();
            bytes.resize(start + run.iter().map(|place| place.entry.stored as usize).sum::<usize>(), 0);
            let target = bytes.get_mut(start..).unwrap_or_default();
            let file = open.chunks.get(chunk)?;
            file.file().read_at(target, first.entry.offset.into()).map_err(|e| open.chunks.fail(chunk, e))?;
        }
        Ok(bytes)
    }
}

/// Moves windows, one after the other.
struct Mover<'a> {
    open: &'a Open,
    writer: &'a mut Writer,
    /// The first byte that entries still tell of on the disk, though not in memory.
    unsynced: Option<Cursor>,
}

impl Mover<'_> {
    fn step(&mut self, window: &Window<'_>) -> Result<()> {
        let bytes = window.read(self.open)?;
        let changes = window.entries()?;
        if self.unsynced.is_some_and(|source| window.end > source) {
            self.writer.loc.sync()?;
            self.unsynced = None;
        }
        if window.overwrites_itself() {
            return self.step_with_intent(window, changes, bytes);
        }
        self.writer.chunks.write(window.start.chunk.into(), &bytes, window.start.offset)?;
        self.writer.chunks.sync()?;
        rows::write_entries(self.writer, &changes)?;
        self.unsynced = self.unsynced.or(window.records.first().map(Place::start));
        Ok(())
    }

    fn step_with_intent(
        &mut self,
        window: &Window<'_>,
        mut changes: Vec<Change>,
        payload: Vec<u8>,
    ) -> Result<()> {
        let records: Vec<u64> = changes.iter().map(|change| change.record).collect();
        let rows = rows::read(self.open, &self.writer.header, &records)?;
        for (change, row) in changes.iter_mut().zip(rows) {
            (change.sum, change.shape) = (row.sum, row.shape);
        }
        let intent = Intent {
            kind: IntentKind::Move,
            header: next_generation(self.writer.header),
            changes,
            payload_chunk: window.start.chunk,
            payload_offset: window.start.offset()?,
            payload,
        };
        let stated = replace(&*self.open.dir, names::INTENT, &intent.encode());
        stated.map_err(self.writer.fail("write", names::INTENT))?;
        // This makes all entries durable, those of the windows before too.
        self.unsynced = None;
        recover::replay(self.writer, &intent)
    }
}

/// Every record is in its place: say so, then give back what lies behind.
/// `uniform` is the header of a store whose records are all alike, and were where they belong.
fn finish(
    open: &Open,
    writer: &mut Writer,
    end: Cursor,
    full: &[Cursor],
    empty: &[Place],
    uniform: Option<Header>,
) -> Result<()> {
    let (tail_chunk, tail_offset) = end.tail()?;
    let same_tail = |header: Header| (header.tail_chunk, header.tail_offset) == (tail_chunk, tail_offset);
    let kept = if uniform.is_some_and(same_tail) { FLAG_UNIFORM } else { 0 };
    let stray = empty.iter().filter(|place| place.start() > end).map(|place| Change {
        record: place.record,
        entry: Entry { chunk: tail_chunk, offset: tail_offset, ..place.entry },
        sum: Sum::default(),
        shape: Shape::default(),
    });
    rows::write_entries(writer, &stray.collect::<Vec<_>>())?;
    // The header can reach the disk as soon as it is written: the entries must be there before it.
    writer.chunks.sync()?;
    writer.sync_tables()?;
    let header = next_generation(writer.header);
    writer.write_header(Header { tail_chunk, tail_offset, flags: header.flags | kept, ..header })?;
    writer.sync()?;
    for chunk in full {
        writer.chunks.cut(chunk.chunk.into(), chunk.offset)?;
    }
    writer.cut_files(&writer.header.clone())?;
    remove_if_there(&*open.dir, names::INTENT).map_err(writer.fail("remove", names::INTENT))
}
