//! The stores that `open` damages: each codec, each kind of store, and what killed writers leave.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::Store;
use crate::codec::Codec;
use crate::format::{Header, HeaderState, Intent, names, take};
use crate::options::Options;
use crate::storage::Directory;
use crate::storage::faulty::{FaultyDirectory, Fuse};
use crate::storage::memory::MemoryDirectory;
use crate::tests::twin::{Op, Row, apply, plain, record, shaped, small};

pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// A store, and every record that it ever held.
pub(super) struct Base {
    pub(super) files: Files,
    pub(super) rows: Vec<Row>,
}

pub(super) static BASES: LazyLock<Vec<Base>> = LazyLock::new(|| {
    let mut bases = Vec::new();
    for codec in Codec::ALL {
        for ragged in [false, true] {
            bases.push(closed(codec, ragged));
            bases.push(killed_after_an_append(codec, ragged));
        }
        bases.push(plain_version_3(closed(codec, false)));
    }
    for codec in [Codec::Raw, Codec::Zstd] {
        for ragged in [false, true] {
            bases.push(killed_in(codec, ragged, &Op::Delete(vec![1, 4, 5])));
            bases.push(killed_in(codec, ragged, &Op::Compact));
        }
    }
    bases
});

fn rows(from: u64, to: u64, ragged: bool) -> Vec<Row> {
    let row = |i| {
        let length = usize::try_from(i * 7 % 5 * 9).unwrap();
        if ragged && i % 3 > 0 { shaped(record(i, length), 3) } else { plain(record(i, length)) }
    };
    (from..to).map(row).collect()
}

/// A store with holes, several chunks and several segments, its handle still open.
fn filled(codec: Codec, ragged: bool) -> (MemoryDirectory, Store, Vec<Row>) {
    let (dir, options) = (MemoryDirectory::new(), small(codec));
    let mut store = Some(Store::create_in(Arc::new(dir.clone()), options.clone()).unwrap());
    let ops = [
        Op::InstallDict,
        Op::Append(rows(0, 8, ragged)),
        Op::Delete(vec![0, 3, 6]),
        Op::Append(rows(8, 13, ragged)),
        Op::Sync,
    ];
    do_all(&dir, &options, &mut store, &ops);
    (dir, store.unwrap(), rows(0, 13, ragged))
}

fn do_all(dir: &MemoryDirectory, options: &Options, store: &mut Option<Store>, ops: &[Op]) {
    let shared: Arc<dyn Directory> = Arc::new(dir.clone());
    for op in ops {
        apply(&shared, options, store, op).unwrap();
    }
}

fn closed(codec: Codec, ragged: bool) -> Base {
    let (dir, store, rows) = filled(codec, ragged);
    store.close().unwrap();
    Base { files: dir.contents(), rows }
}

fn killed_after_an_append(codec: Codec, ragged: bool) -> Base {
    let (dir, store, mut all) = filled(codec, ragged);
    let new = rows(13, 18, ragged);
    all.extend(new.iter().cloned());
    let mut store = Some(store);
    do_all(&dir, &small(codec), &mut store, &[Op::Append(new)]);
    // Before the handle is dropped, which closes it.
    Base { files: dir.contents(), rows: all }
}

/// As a plain version 3 writer leaves it.
fn plain_version_3(mut base: Base) -> Base {
    base.files.retain(|name, _| !name.ends_with(".sum") && name != names::SYNC && name != names::LOCK);
    base.files.get_mut(names::META).unwrap()[22..].fill(0);
    base
}

/// A store whose writer was killed once it had stated what `op` changes.
fn killed_in(codec: Codec, ragged: bool, op: &Op) -> Base {
    let options = small(codec);
    for changes in 0.. {
        let (dir, store, rows) = filled(codec, ragged);
        store.close().unwrap();
        let fuse = Fuse::after(changes, false);
        let faulty: Arc<dyn Directory> = Arc::new(FaultyDirectory::new(dir.clone(), fuse));
        let mut store = Some(Store::open_in(faulty.clone(), options.clone()).unwrap());
        let outcome = apply(&faulty, &options, &mut store, op);
        let files = dir.contents();
        if has_intent(&files) {
            return Base { files, rows };
        }
        assert!(outcome.is_err(), "{op:?} states nothing");
    }
    unreachable!()
}

fn has_intent(files: &Files) -> bool {
    let Ok((header, HeaderState::Ours)) = Header::decode(&take(&files[names::META], 0)) else { return false };
    let intent = files.get(names::INTENT).and_then(|bytes| Intent::decode(bytes));
    intent.is_some_and(|intent| intent.header.generation == header.generation.wrapping_add(1))
}
