//! Appends of many blocks, which several threads work on, and of one record.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::twin::{Row, Twin, append, check_usable, plain, read, record, shaped, small};
use crate::codec::Codec;
use crate::error::Error;
use crate::format::Shape;
use crate::options::Options;
use crate::storage::Directory;
use crate::storage::faulty::{FaultyDirectory, Fuse};
use crate::storage::memory::MemoryDirectory;
use crate::{Records, Store};

/// Limits that a large append passes a few times.
fn options(codec: Codec) -> Options {
    Options::new().codec(codec).chunk_limit(300_000).segment_bits(17)
}

/// More rows than are held back, more bytes than one block has.
fn many(ragged: bool) -> Vec<Row> {
    let row = |i: u64| {
        let length = if i.is_multiple_of(30_000) { 150_000 } else { usize::try_from(i % 5).unwrap() };
        let bytes = record(i, length / 2 * 2);
        if ragged && i.is_multiple_of(7) { shaped(bytes, 2) } else { plain(bytes) }
    };
    (0..150_000).map(row).collect()
}

fn fresh(options: &Options) -> MemoryDirectory {
    let dir = MemoryDirectory::new();
    Store::create_in(Arc::new(dir.clone()), options.clone()).unwrap();
    dir
}

fn open(dir: &MemoryDirectory, options: &Options) -> Store {
    Store::open_in(Arc::new(dir.clone()), options.clone()).unwrap()
}

#[test]
fn one_large_append_is_what_many_small_ones_are() {
    for codec in [Codec::Raw, Codec::Zstd] {
        for ragged in [false, true] {
            let (options, rows) = (options(codec), many(ragged));
            let (large, small) = (fresh(&options), fresh(&options));
            append(&open(&large, &options), &rows).unwrap();
            let store = open(&small, &options);
            for rows in rows.chunks(13_000) {
                append(&store, rows).unwrap();
            }
            store.close().unwrap();
            let (large, small) = (large.contents(), small.contents());
            for (name, bytes) in &large {
                // How often was it synced, and by whom.
                let same = name == "sync.zr" || name == "lock.zr" || small.get(name) == Some(bytes);
                assert!(same, "{codec:?}, ragged: {ragged}: {name}");
            }
            assert_eq!(large.len(), small.len());
        }
    }
}

#[test]
fn all_forms_of_records_are_stored_alike() {
    let src: Vec<u8> = (0..60_000).flat_map(|i| record(i, 10)).collect();
    let offsets: Vec<u64> = (0..60_000).map(|i| i * 10).collect();
    for codec in [Codec::Raw, Codec::Zstd] {
        let options = options(codec);
        let forms = [
            Records::rows(&src, 60_000).unwrap(),
            Records::packed(&src, &offsets).unwrap(),
            Records::list(src.chunks(10).collect()),
        ];
        let mut found = forms.map(|records| {
            let dir = fresh(&options);
            let store = open(&dir, &options);
            assert_eq!(store.append(&records, Some(&vec![Shape::default(); 60_000])).unwrap(), 0);
            assert!(!store.has_shapes().unwrap());
            store.close().unwrap();
            dir.contents()
        });
        found.iter_mut().for_each(|contents| drop(contents.remove("lock.zr")));
        let [rows, packed, list] = found;
        assert!(rows == packed && rows == list, "{codec:?}");
    }
}

#[test]
fn a_large_append_that_is_cut_leaves_nothing_of_it() {
    let before = Twin((0..3).map(|i| plain(record(i, 50))).collect());
    let rows: Vec<Row> = (3..300).map(|i| plain(record(i, 3000))).collect();
    let after = Twin(before.0.iter().chain(&rows).cloned().collect());
    for codec in [Codec::Raw, Codec::Zstd] {
        let options = Options::new().codec(codec).chunk_limit(200_000);
        let base = fresh(&options);
        append(&open(&base, &options), &before.0).unwrap();
        for torn in [false, true] {
            for changes in 0.. {
                let dir = base.copy();
                let fuse = Fuse::after(changes, torn);
                let faulty: Arc<dyn Directory> = Arc::new(FaultyDirectory::new(dir.clone(), fuse.clone()));
                let store = Store::open_in(faulty, options.clone()).unwrap();
                let outcome = append(&store, &rows);
                if let Err(e) = &outcome {
                    assert!(matches!(e, Error::Io { .. }), "{e}");
                    assert_eq!(read(&store).unwrap(), before);
                }
                drop(store);
                let store = open(&dir, &options);
                let content = read(&store).unwrap();
                assert!(content == before || content == after, "{codec:?}, cut at {changes}");
                assert_eq!(content == after, outcome.is_ok(), "{codec:?}, cut at {changes}");
                check_usable(&dir, &options, store, &content);
                if !fuse.blown() {
                    assert!(changes > 10, "only {changes} changes");
                    break;
                }
            }
        }
    }
}

/// Calls to the storage of each of `count` appends of one record.
fn calls(options: &Options, count: u64, append: impl Fn(&Store, u64)) -> Vec<u64> {
    const FAR: u64 = 1 << 40;
    let fuse = Fuse::once(0, false);
    let faulty: Arc<dyn Directory> = Arc::new(FaultyDirectory::new(fresh(options), fuse.clone()));
    let store = Store::open_in(faulty, options.clone()).unwrap();
    let calls = |i| {
        fuse.arm(FAR);
        append(&store, i);
        FAR - fuse.calls_left()
    };
    (0..count).map(calls).collect()
}

#[test]
fn appending_one_record_takes_four_writes_however_many_there_are() {
    for codec in [Codec::Raw, Codec::Zstd] {
        let options = Options::new().codec(codec);
        let one = |store: &Store, i: u64| {
            store.append(&Records::rows(&record(i, 20), 1).unwrap(), None).unwrap();
        };
        let calls = calls(&options, 3000, one);
        // Bytes, entry, checksum, header. The first one also makes its handle the writer and the files.
        assert!(calls[1..].iter().all(|&calls| calls == 4), "{codec:?}: {:?}", &calls[..5]);
    }
}

#[test]
fn appending_one_shaped_record_takes_five() {
    let one = |store: &Store, i: u64| append(store, &[shaped(record(i, 20), 2)]).unwrap();
    let calls = calls(&small(Codec::Raw).chunk_limit(1 << 20).segment_bits(28), 300, one);
    assert!(calls[1..].iter().all(|&calls| calls == 5), "{:?}", &calls[..5]);
}

#[test]
fn what_many_small_appends_wrote_is_made_durable_along_the_way() {
    let options = Options::new().codec(Codec::Raw).chunk_limit(8 << 20);
    let dir = fresh(&options);
    let store = open(&dir, &options);
    for i in 0..40 {
        store.append(&Records::rows(&record(i, 1 << 20), 1).unwrap(), None).unwrap();
    }
    // All names, and nothing that was not synced.
    let durable = || {
        let mut names = true;
        let lost = dir.power_cut(&mut |n| if std::mem::take(&mut names) { n - 1 } else { 0 });
        lost.contents().get("3.chunk").map_or(0, Vec::len)
    };
    // By a thread, in its own time.
    let begun = Instant::now();
    while durable() < 8 << 20 {
        assert!(begun.elapsed() < Duration::from_mins(1), "{} bytes are durable", durable());
        thread::yield_now();
    }
    drop(store);
}
