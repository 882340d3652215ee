//! When records are checked, and whole stores on a real disk.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests change files from outside")]

use std::path::{Path, PathBuf};

use zrecord::{Codec, Error, Options, Records, Repair, Shape, Store, Verify, repair, verify};

fn store(home: &Path, codec: Codec) -> PathBuf {
    let path = home.join("s");
    let store = Store::create(&path, Options::new().codec(codec).chunk_limit(1000)).unwrap();
    let rows: Vec<u8> = (0..40).flat_map(|i| [i; 100]).collect();
    store.append(&Records::rows(&rows, 40).unwrap(), None).unwrap();
    store.close().unwrap();
    path
}

fn flip(file: &Path, at: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    *bytes.get_mut(at).unwrap() ^= 1;
    std::fs::write(file, bytes).unwrap();
}

fn get(store: &Store, record: u64) -> zrecord::Result<Vec<u8>> {
    let mut row = vec![0; 100];
    store.gather_rows(&[record], &mut row).map(|()| row)
}

#[test]
fn once_checks_a_record_when_the_handle_first_reads_it() {
    let home = tempfile::tempdir().unwrap();
    let path = store(home.path(), Codec::Raw);
    let once = Store::open(&path, Options::new().verify(Verify::Once)).unwrap();
    assert_eq!(get(&once, 0).unwrap(), [0; 100]);
    flip(&path.join("0.chunk"), 5);
    flip(&path.join("0.chunk"), 105);
    assert_eq!(get(&once, 0).unwrap().get(5), Some(&1), "record 0 was checked before");
    for _ in 0..2 {
        assert!(matches!(get(&once, 1), Err(Error::CorruptRecord { record: 1, .. })));
    }
    let again = Store::open(&path, Options::new().verify(Verify::Once)).unwrap();
    assert!(matches!(get(&again, 0), Err(Error::CorruptRecord { record: 0, .. })));
    let never = Store::open(&path, Options::new().verify(Verify::Never)).unwrap();
    assert_eq!(get(&never, 1).unwrap().get(5), Some(&0));
}

#[test]
fn once_begins_anew_when_records_were_moved() {
    let home = tempfile::tempdir().unwrap();
    let path = store(home.path(), Codec::Raw);
    let once = Store::open(&path, Options::new().verify(Verify::Once)).unwrap();
    for record in 0..40 {
        get(&once, record).unwrap();
    }
    once.delete(&[0]).unwrap();
    assert_eq!(get(&once, 0).unwrap(), [39; 100]);
    flip(&path.join("0.chunk"), 205);
    assert!(matches!(get(&once, 2), Err(Error::CorruptRecord { record: 2, .. })));
}

#[test]
fn packed_offsets_of_another_moment_are_noticed() {
    let home = tempfile::tempdir().unwrap();
    let store = Store::create(home.path(), Options::new().codec(Codec::Raw)).unwrap();
    store.append(&Records::list(vec![b"abc", b"defgh", b"i"]), None).unwrap();
    let offsets = store.packed_offsets(&[0, 2]).unwrap();
    let mut dst = vec![0; 4];
    assert_eq!(store.gather_packed(&[0, 2], &offsets, &mut dst).unwrap(), None);
    assert_eq!(dst, b"abci");
    let shape = Shape([3, 1, 2, 0, 0, 0, 0, 0]);
    store.append(&Records::list(vec![b"jk"]), Some(&[shape])).unwrap();
    assert_eq!(store.gather_packed(&[0, 2], &offsets, &mut dst).unwrap(), Some(vec![Shape::default(); 2]));
    // Record 3 takes the place of record 0.
    store.delete(&[0]).unwrap();
    let stale = store.gather_packed(&[0, 2], &offsets, &mut dst);
    assert!(matches!(stale, Err(Error::LengthMismatch { record: 0, found: 2, expected: 3 })), "{stale:?}");
}

#[test]
fn a_store_on_disk_is_verified_beside_its_writer_and_repaired_alone() {
    for codec in [Codec::Raw, Codec::Zstd] {
        let home = tempfile::tempdir().unwrap();
        let path = store(home.path(), codec);
        let writer = Store::open(&path, Options::new()).unwrap();
        writer.append(&Records::rows(&[9; 100], 1).unwrap(), None).unwrap();
        let report = verify(&path, &mut |_| true).unwrap();
        assert!(report.is_sound() && report.records == 41 && report.sound == 41, "{report:?}");
        let locked = repair(&path, Repair::default(), &mut |_| true);
        assert!(matches!(locked, Err(Error::Locked { .. })), "{locked:?}");
        writer.close().unwrap();
        flip(&path.join("0.chunk"), 5);
        let report = verify(&path, &mut |_| true).unwrap();
        assert_eq!(report.damaged, [0]);
        let how = Repair { drop_damaged: true, ..Repair::default() };
        assert_eq!(repair(&path, how, &mut |_| true).unwrap().dropped, [0]);
        assert_eq!(get(&Store::open(&path, Options::new()).unwrap(), 0).unwrap(), [9; 100]);
    }
    let nowhere = verify(Path::new("/nonexistent/store"), &mut |_| true);
    assert!(matches!(nowhere, Err(Error::NotFound { .. })), "{nowhere:?}");
}

#[test]
fn progress_goes_from_nothing_to_all() {
    let home = tempfile::tempdir().unwrap();
    let path = store(home.path(), Codec::Zstd);
    let mut seen = Vec::new();
    verify(&path, &mut |progress| {
        seen.push(progress);
        true
    })
    .unwrap();
    assert!(seen.is_sorted_by_key(|progress| progress.done));
    assert!(seen.iter().all(|progress| progress.total == 40));
    assert_eq!(seen.last().map(|progress| progress.done), Some(40));
    let stopped = verify(&path, &mut |_| false);
    assert!(matches!(stopped, Err(Error::Interrupted { .. })), "{stopped:?}");
}

#[test]
fn shapes_that_are_adopted_keep_the_checksums_and_what_these_say_about_damage() {
    let home = tempfile::tempdir().unwrap();
    let path = store(home.path(), Codec::Raw);
    flip(&path.join("0.chunk"), 5);
    let shapes: Vec<Shape> =
        (0..40).map(|i| Shape([3, 10 + i % 2 * 10, 10 - i % 2 * 5, 0, 0, 0, 0, 0])).collect();
    let old = Store::open(&path, Options::new()).unwrap();
    old.adopt_shapes(&shapes, b"schema").unwrap();
    assert!(old.sums_known().unwrap() && old.has_shapes().unwrap());
    assert_eq!(old.shapes(&(0..40).collect::<Vec<_>>()).unwrap(), shapes);
    assert!(matches!(get(&old, 0), Err(Error::CorruptRecord { record: 0, .. })));
    old.close().unwrap();
    assert_eq!(verify(&path, &mut |_| true).unwrap().damaged, [0]);
}
