//! The exam of a store whose files were changed from outside: it answers rightly, or with an error that says what is damaged.
//! It knows no more than the public methods, so it is the same for stores in memory and on disk.

mod change;
mod law;

pub(crate) use change::{Change, Files, changes};
pub(crate) use law::{Expected, Law, Row, Slot};

use super::{Codec, Error, Records, Result, Shape, Store};

/// How the exam opens a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read-only.
    Read,
    /// Read-only, and sums are not looked at.
    Unchecked,
    Write,
}

pub(crate) type Opener<'a> = &'a dyn Fn(Access) -> Result<Store>;

/// The outcome of one exam; what it panics with is told instead, so that others can go on.
pub(crate) fn outcome<T>(exam: impl FnOnce() -> T) -> std::result::Result<T, String> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(exam))
        .map_err(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic".to_owned()))
}

/// All exams; that of a writer comes last, since it changes the store. Returns whether a reader could open it.
pub(crate) fn examine_all(open: Opener<'_>, expected: &Expected, writes: bool) -> bool {
    let opened = examine_reader(open, expected);
    examine_unchecked(open);
    if writes {
        examine_writer(open, expected);
    }
    opened
}

/// Open and read. Returns whether the store could be opened.
pub(crate) fn examine_reader(open: Opener<'_>, expected: &Expected) -> bool {
    match open(Access::Read) {
        Ok(store) => {
            // What a writer would refuse, a reader may find out later.
            let mut expected = expected.clone();
            expected.slots.iter_mut().for_each(|slot| slot.may_fail |= expected.header_damaged);
            read(&store, &expected);
            true
        }
        Err(Error::Unfinished { .. }) if expected.unfinished => false,
        Err(e) => {
            check(&e, expected.may_refuse, "opening");
            false
        }
    }
}

/// Open and read without sums: whatever comes, it comes without a panic.
fn examine_unchecked(open: Opener<'_>) {
    let store = match open(Access::Unchecked) {
        Ok(store) => store,
        Err(Error::Unfinished { .. }) => return,
        Err(e) => return check(&e, true, "opening"),
    };
    for index in 0..store.len().unwrap() {
        if let Err(e) = record(&store, index) {
            check(&e, true, "a record");
        }
    }
}

/// Open as a writer, and do everything that changes a store.
fn examine_writer(open: Opener<'_>, expected: &Expected) {
    let opened = open(Access::Write).and_then(|store| store.begin_write().map(|_| store));
    let store = match opened {
        Ok(store) => store,
        Err(e) => return check(&e, expected.may_refuse, "opening"),
    };
    let damaged = expected.slots.iter().any(|slot| slot.may_fail);
    let writable = store.codec() != Codec::ZstdDict || store.has_dict().unwrap();
    let mut slots = read(&store, expected);

    let new = [(b"one more".to_vec(), expected.shape), (Vec::new(), Shape::default())];
    match append(&store, &new) {
        Ok(()) => slots.extend(new.into_iter().map(Slot::of)),
        Err(e) => assert!(!writable && matches!(e, Error::MissingDictionary { .. }), "append: {e}"),
    }
    reread(&store, &slots, "append");
    if !slots.is_empty() {
        match store.delete(&[0]) {
            Ok(()) => drop(slots.swap_remove(0)),
            Err(e) => check(&e, damaged, "delete"),
        }
        reread(&store, &slots, "delete");
    }
    if let Err(e) = store.compact() {
        check(&e, damaged, "compact");
    }
    reread(&store, &slots, "compact");
    store.close().unwrap_or_else(|e| panic!("close: {e}"));
    for access in [Access::Read, Access::Write] {
        let store = open(access).unwrap_or_else(|e| panic!("opening again: {e}"));
        reread(&store, &slots, "opening again");
        if access == Access::Write && writable {
            append(&store, &[(b"at last".to_vec(), Shape::default())])
                .unwrap_or_else(|e| panic!("another append: {e}"));
        }
    }
}

fn append(store: &Store, rows: &[Row]) -> Result<()> {
    let records = Records::list(rows.iter().map(|(bytes, _)| bytes.as_slice()).collect());
    let shapes: Vec<Shape> = rows.iter().map(|&(_, shape)| shape).collect();
    let plain = shapes.iter().all(Shape::is_plain);
    store.append(&records, if plain { None } else { Some(&shapes) }).map(drop)
}

/// An error says what is wrong with the files, and comes only where something may be wrong.
fn check(e: &Error, may_fail: bool, what: &str) {
    let damage = matches!(
        e,
        Error::NotAStore { .. }
            | Error::UnsupportedVersion { .. }
            | Error::UnsupportedExtension { .. }
            | Error::UnsupportedCodec { .. }
            | Error::MissingDictionary { .. }
            | Error::CorruptStore { .. }
            | Error::CorruptRecord { .. }
    );
    assert!(damage && may_fail, "{what}: {e}");
}

/// Read everything in every way; returns what each record is known to be from here on.
fn read(store: &Store, expected: &Expected) -> Vec<Slot> {
    let length = store.len().unwrap();
    expected.check_length(length, store.sums_known().unwrap());
    let mut slots: Vec<Slot> =
        expected.slots.iter().take(usize::try_from(length).unwrap()).cloned().collect();
    let damaged = slots.iter().any(|slot| slot.may_fail);
    let all: Vec<u64> = (0..length).collect();
    let mut readable = Vec::new();
    for (&index, slot) in all.iter().zip(&mut slots) {
        match record(store, index) {
            Ok(row) => {
                readable.push((index, row.0.clone()));
                slot.settle(index, row);
            }
            Err(e) => check(&e, slot.may_fail, &format!("record {index}")),
        }
    }
    let (idxs, rows): (Vec<u64>, Vec<Vec<u8>>) = readable.into_iter().unzip();
    assert_eq!(batch(store, &idxs).unwrap_or_else(|e| panic!("a batch: {e}")), rows);
    for (what, outcome) in [
        ("lengths", store.lengths(&all).map(drop)),
        ("shapes", store.shapes(&all).map(drop)),
        ("a batch of all", batch(store, &all).map(drop)),
        ("stats", store.stats().map(|stats| assert_eq!(stats.records, length))),
    ] {
        if let Err(e) = outcome {
            check(&e, damaged, what);
        }
    }
    slots
}

/// Nothing that could be read before is lost, and nothing is another record.
fn reread(store: &Store, slots: &[Slot], after: &str) {
    assert_eq!(store.len().unwrap(), slots.len() as u64, "the length after {after}");
    for (slot, index) in slots.iter().zip(0..) {
        match record(store, index) {
            Ok(row) => assert!(slot.allows(&row), "record {index} after {after}: {row:?}, not {slot:?}"),
            Err(e) => check(&e, slot.may_fail, &format!("record {index} after {after}")),
        }
    }
}

fn record(store: &Store, index: u64) -> Result<Row> {
    let length = store.lengths(&[index])?[0];
    let mut bytes = vec![0xAA; length as usize];
    store.gather(&[index], &mut bytes, &[0])?;
    Ok((bytes, store.shapes(&[index])?[0]))
}

/// The records, all in one gather.
fn batch(store: &Store, idxs: &[u64]) -> Result<Vec<Vec<u8>>> {
    if idxs.is_empty() {
        return Ok(Vec::new());
    }
    let offsets = store.packed_offsets(idxs)?;
    let at: Vec<usize> = offsets.iter().map(|&offset| usize::try_from(offset).unwrap()).collect();
    let mut bytes = vec![0xAA; at[idxs.len()]];
    store.gather(idxs, &mut bytes, &offsets[..idxs.len()])?;
    Ok(at.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec()).collect())
}
