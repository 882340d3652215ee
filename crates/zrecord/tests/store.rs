//! A store on a real directory, from outside.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::path::Path;

use zrecord::{Codec, Error, Io, Options, Records, Shape, Store, Verify, build_dict};

fn records(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|i| format!("record {i} ").repeat(i % 7 + 1).into_bytes()).collect()
}

fn slices(records: &[Vec<u8>]) -> Records<'_> {
    Records::list(records.iter().map(Vec::as_slice).collect())
}

fn dictionary() -> Vec<u8> {
    let samples = records(2000);
    let sizes: Vec<u64> = samples.iter().map(|r| r.len() as u64).collect();
    build_dict(&samples.concat(), &sizes, 4096).unwrap()
}

fn create(path: &Path, codec: Codec) -> Store {
    let store = Store::create(path, Options::new().codec(codec)).unwrap();
    if codec == Codec::ZstdDict {
        store.install_dict(&dictionary()).unwrap();
    }
    store
}

fn read(store: &Store, idxs: &[u64]) -> Vec<Vec<u8>> {
    let offsets = store.packed_offsets(idxs).unwrap();
    let mut bytes = vec![0; usize::try_from(*offsets.last().unwrap()).unwrap()];
    store.gather(idxs, &mut bytes, &offsets[..idxs.len()]).unwrap();
    let at = |i: usize| usize::try_from(offsets[i]).unwrap();
    (0..idxs.len()).map(|i| bytes[at(i)..at(i + 1)].to_vec()).collect()
}

fn all(store: &Store) -> Vec<Vec<u8>> {
    read(store, &(0..store.len().unwrap()).collect::<Vec<_>>())
}

#[test]
fn what_is_appended_is_gathered_in_each_codec_and_by_each_way_of_reading() {
    for codec in Codec::ALL {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a store, mit Umlaut ü");
        let store = create(&path, codec);
        let data = records(500);
        assert_eq!(store.append(&slices(&data[..300]), None).unwrap(), 0);
        assert_eq!(store.append(&slices(&data[300..]), None).unwrap(), 300);
        assert_eq!(all(&store), data);
        store.close().unwrap();
        for io in [Io::Auto, Io::Mmap, Io::Pread] {
            for verify in [Verify::Always, Verify::Never] {
                let store = Store::open(&path, Options::new().io(io).verify(verify)).unwrap();
                assert_eq!(all(&store), data, "{codec:?} {io:?}");
                let idxs = [499, 0, 250, 250];
                let expected: Vec<_> =
                    idxs.iter().map(|&i| data[usize::try_from(i).unwrap()].clone()).collect();
                assert_eq!(read(&store, &idxs), expected);
            }
        }
    }
}

#[test]
fn large_batches_go_over_the_pool_and_stay_in_order() {
    let home = tempfile::tempdir().unwrap();
    for codec in [Codec::Raw, Codec::Zstd] {
        let store = create(&home.path().join(codec.name()), codec);
        let rows: Vec<u8> =
            (0..4_000_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[2] & 15).collect();
        store.append(&Records::rows(&rows, 4000).unwrap(), None).unwrap();
        let idxs: Vec<u64> = (0..4000).rev().collect();
        let mut back = vec![0; rows.len()];
        store.gather_rows(&idxs, &mut back).unwrap();
        let expected: Vec<u8> = rows.chunks(1000).rev().flatten().copied().collect();
        assert!(back == expected);
    }
}

#[test]
fn files_are_as_long_as_their_content() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let store = create(&path, Codec::Raw);
    store.append(&Records::rows(&[7; 40], 10).unwrap(), None).unwrap();
    store.close().unwrap();
    let length = |name: &str| path.join(name).metadata().unwrap().len();
    let lengths = ["meta.zr", "0.loc", "0.sum", "0.chunk", "sync.zr"].map(length);
    assert_eq!(lengths, [32, 160, 40, 40, 1024]);
    assert!(!path.join("0.shape").exists());
}

#[test]
fn shapes_come_with_the_first_record_that_needs_one() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let store = create(&path, Codec::Zstd);
    let data = records(4);
    store.append(&slices(&data[..2]), None).unwrap();
    assert!(!store.has_shapes().unwrap());
    let shape = Shape([3, 1, 9, 0, 0, 0, 0, 0]);
    store.append(&slices(&data[2..3]), Some(&[shape])).unwrap();
    store.append(&slices(&data[3..]), None).unwrap();
    let plain = Shape::default();
    assert_eq!(store.shapes(&[0, 1, 2, 3]).unwrap(), [plain, plain, shape, plain]);
    store.delete(&[0]).unwrap();
    store.delete(&[1]).unwrap();
    assert_eq!(store.shapes(&[0, 1]).unwrap(), [plain, shape]);
}

#[test]
fn delete_is_swap_last_in_descending_order() {
    let home = tempfile::tempdir().unwrap();
    for codec in Codec::ALL {
        let store = create(&home.path().join(codec.name()), codec);
        let mut twin = records(50);
        store.append(&slices(&twin), None).unwrap();
        store.delete(&[3, 49, 0, 3, 20]).unwrap();
        for index in [49, 20, 3, 0] {
            twin.swap_remove(index);
        }
        assert_eq!(all(&store), twin);
        store.compact().unwrap();
        assert_eq!(all(&store), twin);
        assert_eq!(store.stats().unwrap().reclaimable, 0);
        store.append(&slices(&records(3)), None).unwrap();
        twin.extend(records(3));
        assert_eq!(all(&store), twin);
    }
}

#[test]
fn one_writer_many_readers() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let store = create(&path, Codec::Raw);
    store.append(&slices(&records(2)), None).unwrap();
    let reader = Store::open(&path, Options::new()).unwrap();
    assert_eq!(reader.len().unwrap(), 2);
    store.append(&slices(&records(3)), None).unwrap();
    assert_eq!(reader.len().unwrap(), 2);
    assert_eq!(reader.refresh().unwrap(), 5);
    let refused = reader.append(&slices(&records(1)), None).unwrap_err();
    assert!(
        matches!(&refused, Error::Locked { reason, .. } if reason.contains(&std::process::id().to_string()))
    );
    assert!(matches!(store.delete(&[0]), Err(Error::Locked { .. })));
    assert!(matches!(store.compact(), Err(Error::Locked { .. })));
    drop(reader);
    store.delete(&[0]).unwrap();
    store.close().unwrap();
    assert!(matches!(store.len(), Err(Error::Closed { .. })));
    store.close().unwrap();
}

fn refused(path: &Path) -> bool {
    matches!(&Store::open(path, Options::new()), Err(Error::Locked { reason, .. }) if reason.contains("deleting"))
}

#[test]
fn a_held_store_is_held_over_several_calls() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let store = create(&path, Codec::Raw);
    let mut twin = records(9);
    store.append(&slices(&twin), None).unwrap();
    assert_eq!(store.hold("a test").unwrap(), 9);
    assert_eq!(store.hold("a test").unwrap(), 9);
    assert!(refused(&path));
    for index in [4, 2] {
        store.delete(&[index as u64]).unwrap();
        twin.swap_remove(index);
        assert!(refused(&path), "a delete gave the lock back");
    }
    store.compact().unwrap();
    store.append(&slices(&records(1)), None).unwrap();
    twin.extend(records(1));
    store.sync().unwrap();
    assert!(refused(&path));
    assert!(matches!(store.delete(&[99]), Err(Error::IndexOutOfRange { .. })));
    assert!(refused(&path), "a refused delete gave the lock back");
    assert_eq!(all(&store), twin);

    store.release().unwrap();
    store.release().unwrap();
    let reader = Store::open(&path, Options::new()).unwrap();
    assert_eq!(all(&reader), twin);
    drop(reader);
    store.delete(&[0]).unwrap();
    assert_eq!(Store::open(&path, Options::new()).unwrap().len().unwrap(), twin.len() as u64 - 1);
}

#[test]
fn a_held_store_is_given_back_by_close_and_by_drop() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let closed = create(&path, Codec::Raw);
    closed.hold("a test").unwrap();
    closed.close().unwrap();
    closed.release().unwrap();
    assert!(matches!(closed.hold("a test"), Err(Error::Closed { .. })));

    let dropped = Store::open(&path, Options::new()).unwrap();
    dropped.hold("a test").unwrap();
    assert!(refused(&path));
    drop(dropped);
    assert!(Store::open(&path, Options::new()).unwrap().hold("a test").is_ok());
}

#[test]
fn a_store_that_others_have_open_is_not_held() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let store = create(&path, Codec::Raw);
    let reader = Store::open(&path, Options::new()).unwrap();
    let text = store.hold("what a test does").unwrap_err().to_string();
    assert!(text.contains("what a test does needs the store alone, but another handle or process"), "{text}");
    // The reader's lock came back, and the writer's stayed.
    assert!(matches!(reader.hold("a test"), Err(Error::Locked { .. })));
    drop(reader);
    store.hold("a test").unwrap();
    store.release().unwrap();
    let other = Store::open(&path, Options::new()).unwrap();
    let text = other.hold("a test").unwrap_err().to_string();
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    let read_only = Store::open(&path, Options::new().read_only(true)).unwrap();
    assert!(matches!(read_only.hold("a test"), Err(Error::ReadOnly { .. })));
}

#[test]
fn a_reader_sees_as_much_as_it_asks_for() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let store = create(&path, Codec::Zstd);
    let data = records(9);
    assert!(!Store::open(&path, Options::new()).unwrap().has_writer());
    store.append(&slices(&data), None).unwrap();
    let reader = Store::open(&path, Options::new()).unwrap();
    assert!(reader.has_writer() && store.has_writer());
    assert_eq!(reader.limit(4).unwrap(), 4);
    assert_eq!(all(&reader), data[..4]);
    assert!(matches!(reader.lengths(&[4]), Err(Error::IndexOutOfRange { index: 4, length: 4 })));
    assert_eq!(reader.limit(7).unwrap(), 4);
    assert_eq!(reader.refresh().unwrap(), 9);
    assert_eq!(store.limit(3).unwrap(), 9);
    assert_eq!(reader.limit(2).unwrap(), 2);
    store.close().unwrap();
    assert!(!reader.has_writer());
    // A writer begins where the store ends, whatever it saw before.
    assert_eq!(reader.append(&slices(&data[..1]), None).unwrap(), 9);
    assert_eq!(all(&reader)[..9], data);
}

#[test]
fn a_moved_store_is_stale_for_who_slept() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let store = create(&path, Codec::Raw);
    store.append(&slices(&records(9)), None).unwrap();
    store.delete(&[1]).unwrap();
    assert_eq!(store.generation().unwrap(), 1);
    store.compact().unwrap();
    assert!(store.generation().unwrap() > 1);
}

#[test]
fn a_dictionary_is_needed_and_kept() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let store = Store::create(&path, Options::new().codec(Codec::ZstdDict)).unwrap();
    let data = records(20);
    assert!(matches!(store.append(&slices(&data), None), Err(Error::MissingDictionary { .. })));
    let dict = dictionary();
    store.install_dict(&dict).unwrap();
    store.append(&slices(&data), None).unwrap();
    let other =
        build_dict(&data.concat().repeat(40), &vec![(data.concat().len() / 4) as u64; 160], 2048).unwrap();
    assert!(matches!(store.install_dict(&other), Err(Error::InvalidArgument(_))));
    store.close().unwrap();

    let file = path.join("dict.zr");
    let moved = path.join("elsewhere");
    std_rename(&file, &moved);
    let store = Store::open(&path, Options::new()).unwrap();
    assert!(matches!(
        store.gather_rows(&[0], &mut vec![0; data[0].len()]),
        Err(Error::MissingDictionary { .. })
    ));
    assert!(matches!(store.append(&slices(&data), None), Err(Error::MissingDictionary { .. })));
    assert!(store.install_dict(&other).is_err());
    store.install_dict(&dict).unwrap();
    assert_eq!(all(&store), data);
}

#[expect(clippy::disallowed_methods, reason = "the test plays a user with a file manager")]
fn std_rename(from: &Path, to: &Path) {
    std::fs::rename(from, to).unwrap();
}

#[test]
fn creating_over_something_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    create(&path, Codec::Raw).close().unwrap();
    assert!(matches!(Store::create(&path, Options::new()), Err(Error::AlreadyExists { .. })));
    assert!(matches!(Store::create(home.path(), Options::new()), Err(Error::NotAStore { .. })));
    assert!(matches!(Store::open(&home.path().join("none"), Options::new()), Err(Error::NotFound { .. })));
    assert!(matches!(Store::open(home.path(), Options::new()), Err(Error::NotAStore { .. })));
    assert!(matches!(Store::open(&path.join("meta.zr"), Options::new()), Err(Error::Io { .. })));
    let codec = Store::open(&path, Options::new().codec(Codec::Zstd));
    assert!(matches!(codec, Err(Error::CodecMismatch { found: "raw", expected: "zstd", .. })));
    let level = Store::create(&home.path().join("l"), Options::new().codec(Codec::Zstd).level(99));
    assert!(matches!(level, Err(Error::InvalidArgument(_))));
    assert!(!home.path().join("l").exists());
}

#[test]
fn a_level_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    Store::create(&path, Options::new().codec(Codec::Zstd).level(-4)).unwrap().close().unwrap();
    assert_eq!(Store::open(&path, Options::new()).unwrap().level(), Some(-4));
}

#[test]
fn bad_arguments_change_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = create(&home.path().join("s"), Codec::Zstd);
    let data = records(3);
    store.append(&slices(&data), None).unwrap();
    assert!(matches!(store.append(&Records::list(vec![]), None), Err(Error::InvalidArgument(_))));
    assert!(store.append(&slices(&data), Some(&[Shape::default()])).is_err());
    assert!(matches!(store.delete(&[0, 3]), Err(Error::IndexOutOfRange { index: 3, length: 3 })));
    assert!(matches!(store.gather_rows(&[9], &mut [0]), Err(Error::IndexOutOfRange { .. })));
    assert!(matches!(store.gather_rows(&[0], &mut [0]), Err(Error::LengthMismatch { expected: 1, .. })));
    assert!(store.gather(&[0, 1], &mut [0; 100], &[0, 1]).is_err());
    assert_eq!(all(&store), data);
}

#[test]
fn a_read_only_handle_writes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    create(&path, Codec::Raw).append(&slices(&records(3)), None).unwrap();
    let store = Store::open(&path, Options::new().read_only(true)).unwrap();
    assert_eq!(all(&store), records(3));
    assert!(matches!(store.append(&slices(&records(1)), None), Err(Error::ReadOnly { .. })));
    assert!(matches!(store.delete(&[0]), Err(Error::ReadOnly { .. })));
}

#[test]
fn sixteen_threads_gather_while_one_appends() {
    let home = tempfile::tempdir().unwrap();
    let store = create(&home.path().join("s"), Codec::Zstd);
    let data = records(200);
    store.append(&slices(&data), None).unwrap();
    std::thread::scope(|scope| {
        for seed in 0..16_u64 {
            let (store, data) = (&store, &data);
            scope.spawn(move || {
                for round in 0..50 {
                    let idxs: Vec<u64> = (0..64).map(|i| (seed * 31 + round * 17 + i * i) % 200).collect();
                    let expected: Vec<_> =
                        idxs.iter().map(|&i| data[usize::try_from(i).unwrap()].clone()).collect();
                    assert_eq!(read(store, &idxs), expected);
                }
            });
        }
        for _ in 0..50 {
            store.append(&slices(&data), None).unwrap();
        }
    });
    assert_eq!(store.len().unwrap(), 51 * 200);
}
