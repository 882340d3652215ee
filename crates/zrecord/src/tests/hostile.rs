//! Every byte of every file changed, every file cut at every length, extended and removed: the exam of `tests/exam`, for stores of
//! several segments and chunks, settled and not. On real files, and with what they ask of memory: `tests/hostile.rs`.

#[path = "../../tests/exam/mod.rs"]
mod exam;

use std::sync::Arc;

use self::exam::{Change, Files, Law, changes, examine_all};
use super::twin::{Op, Row, Twin, append, apply, plain, record, shaped, small};
use crate::Records;
use crate::Store;
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::format::Shape;
use crate::options::{Options, Verify};
use crate::storage::faulty::{FaultyDirectory, Fuse};
use crate::storage::memory::MemoryDirectory;
use crate::storage::{Access, Directory};

/// What was tried.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    bytes: usize,
    cuts: usize,
    changes: usize,
    refused: usize,
}

fn rows(from: u64, to: u64, ragged: bool) -> Vec<Row> {
    let row = |i| {
        let length = [9, 40, 16, 24, 32, 41, 61][usize::try_from(i % 7).unwrap()];
        if ragged && i % 3 > 0 { shaped(record(i, length), 1) } else { plain(record(i, length)) }
    };
    (from..to).map(row).collect()
}

/// Two segments, several chunks, dead space in the first, and a first record that lies behind all others, alone in the last chunk.
fn start(codec: Codec, ragged: bool) -> (MemoryDirectory, Store, Twin) {
    let (dir, options) = (MemoryDirectory::new(), small(codec));
    let shared: Arc<dyn Directory> = Arc::new(dir.clone());
    let mut store =
        Some(Store::create_in(shared.clone(), options.clone().schema(b"schema".to_vec())).unwrap());
    let mut twin = Twin::default();
    for op in [Op::InstallDict, Op::Append(rows(0, 7, ragged)), Op::Delete(vec![0]), Op::Sync] {
        apply(&shared, &options, &mut store, &op).unwrap();
        twin = twin.after(&op);
    }
    (dir, store.unwrap(), twin)
}

fn change(dir: &MemoryDirectory, name: &str, change: Change, bytes: &[u8]) -> MemoryDirectory {
    let changed = dir.copy();
    match (change, change.apply(bytes)) {
        (_, None) => changed.remove(name).unwrap(),
        (Change::Byte { at, value, .. }, _) => {
            changed.open(name, Access::Write).unwrap().write_at(&[value], at as u64).unwrap();
        }
        (_, Some(bytes)) => {
            let file = changed.open(name, Access::Write).unwrap();
            file.set_len(0).unwrap();
            file.write_at(&bytes, 0).unwrap();
        }
    }
    changed
}

/// The exam of every change.
fn examine(dir: &MemoryDirectory, law: &Law) -> Tally {
    let files: Files = dir.contents();
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for (name, bytes) in &files {
        tally.bytes += bytes.len();
        for what in changes(name, bytes) {
            if law.is_pending() && what.is_again() {
                continue;
            }
            tally.changes += 1;
            tally.cuts += usize::from(matches!(what, Change::Cut(_)));
            let expected = law.expected(&files, name, what);
            let changed = change(dir, name, what, bytes);
            let open = |access: exam::Access| {
                let options = Options::new().chunk_limit(100).segment_bits(2);
                let options = options.read_only(access != exam::Access::Write);
                let never = access == exam::Access::Unchecked;
                let options = options.verify(if never { Verify::Never } else { Verify::Always });
                Store::open_in(Arc::new(changed.clone()), options)
            };
            match exam::outcome(|| examine_all(&open, &expected, !what.is_again())) {
                Ok(opened) => tally.refused += usize::from(!opened),
                Err(why) => failures.push(format!("{name}, {what:?}: {why}")),
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert_eq!((tally.cuts, tally.refused > 0), (tally.bytes, true));
    tally
}

fn settled(codec: Codec, ragged: bool) {
    let (dir, store, twin) = start(codec, ragged);
    store.close().unwrap();
    let tally = examine(&dir, &Law::settled(twin.0, 4));
    println!("settled, {codec:?}, ragged: {ragged}: {tally:?}");
    assert!(tally.bytes > 1300 && tally.changes > 3500);
}

#[test]
fn settled_raw() {
    settled(Codec::Raw, false);
    settled(Codec::Raw, true);
}

#[test]
fn settled_zstd() {
    settled(Codec::Zstd, false);
    settled(Codec::Zstd, true);
}

#[test]
fn settled_zstd_dict() {
    settled(Codec::ZstdDict, false);
    settled(Codec::ZstdDict, true);
}

/// A writer was killed: what it appended since the last sync is there, though nobody said so in `sync.zr`.
fn unsynced(codec: Codec, ragged: bool) {
    let (dir, store, twin) = start(codec, ragged);
    append(&store, &rows(7, 10, ragged)).unwrap();
    let rows = twin.after(&Op::Append(rows(7, 10, ragged))).0;
    let tally = examine(&dir.copy(), &Law { durable: twin.0.len(), ..Law::settled(rows, 4) });
    println!("not synced, {codec:?}, ragged: {ragged}: {tally:?}");
    assert!(tally.bytes > 1300 && tally.changes > 3500);
}

#[test]
fn unsynced_raw() {
    unsynced(Codec::Raw, false);
    unsynced(Codec::Raw, true);
}

#[test]
fn unsynced_zstd() {
    unsynced(Codec::Zstd, true);
}

#[test]
fn unsynced_zstd_dict() {
    unsynced(Codec::ZstdDict, false);
}

/// Cut a delete or compact at each change until it has stated something and done all of it but the header: what is left then, and
/// with the statement alone.
fn pending(codec: Codec, op: &Op) -> [(MemoryDirectory, Law); 2] {
    let (base, store, twin) = start(codec, true);
    append(&store, &rows(7, 9, true)).unwrap();
    store.close().unwrap();
    let before = twin.after(&Op::Append(rows(7, 9, true)));
    let states = vec![before.0.clone(), before.after(op).0];
    let law = Law { states, ..Law::settled(before.0, 4) };
    let mut unfinished = Vec::new();
    for changes in 0.. {
        let dir = base.copy();
        let faulty: Arc<dyn Directory> =
            Arc::new(FaultyDirectory::new(dir.clone(), Fuse::after(changes, false)));
        let mut store = Some(Store::open_in(faulty.clone(), small(codec)).unwrap());
        let complete = apply(&faulty, &small(codec), &mut store, op).is_ok();
        let left = dir.copy();
        let reader = Store::open_in(Arc::new(left.clone()), small(codec).read_only(true));
        match reader {
            Err(Error::Unfinished { .. }) => unfinished.push(left),
            _ if unfinished.is_empty() => assert!(!complete, "{op:?} states nothing"),
            _ => break,
        }
    }
    let last = unfinished.pop().unwrap();
    [(unfinished.swap_remove(0), law.clone()), (last, law)]
}

fn examine_pending(codec: Codec, op: &Op) {
    let [first, last] = pending(codec, op);
    println!("{op:?}, {codec:?}, as good as done: {:?}", examine(&last.0, &last.1));
    if codec == Codec::Raw {
        println!("{op:?}, {codec:?}, only stated: {:?}", examine(&first.0, &first.1));
    }
}

#[test]
fn a_pending_delete() {
    examine_pending(Codec::Raw, &Op::Delete(vec![1, 3]));
    examine_pending(Codec::ZstdDict, &Op::Delete(vec![1, 3]));
}

#[test]
fn a_pending_move() {
    examine_pending(Codec::Raw, &Op::Compact);
    examine_pending(Codec::Zstd, &Op::Compact);
}

#[test]
fn stores_without_records_or_without_bytes() {
    for rows in [vec![], vec![plain(vec![]); 5]] {
        let dir = MemoryDirectory::new();
        let store = Store::create_in(Arc::new(dir.clone()), small(Codec::Raw)).unwrap();
        if !rows.is_empty() {
            append(&store, &rows).unwrap();
        }
        store.close().unwrap();
        println!("{} records: {:?}", rows.len(), examine(&dir, &Law::settled(rows, 4)));
    }
}
