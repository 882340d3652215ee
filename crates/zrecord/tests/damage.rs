//! Headers, slots, intents and tables that are not what they should be: told apart, never believed.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests change files from outside")]

use std::path::{Path, PathBuf};

use zrecord::{Codec, Error, Options, Records, Shape, Store};

const HEADER: usize = 32;

/// A closed store of ten 4-byte records.
fn store(home: &Path, shapes: bool) -> PathBuf {
    let path = home.join("s");
    let store = Store::create(&path, Options::new().codec(Codec::Raw)).unwrap();
    let shape = [Shape([3, 2, 2, 0, 0, 0, 0, 0]); 10];
    store.append(&Records::rows(&[7; 40], 10).unwrap(), shapes.then_some(shape.as_slice())).unwrap();
    store.close().unwrap();
    path
}

fn patch(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(file).unwrap();
    change(&mut bytes);
    std::fs::write(file, bytes).unwrap();
}

fn flip(file: &Path, at: usize, by: u8) {
    patch(file, |bytes| *bytes.get_mut(at).unwrap() ^= by);
}

fn open(path: &Path) -> zrecord::Result<Store> {
    Store::open(path, Options::new())
}

/// Every record, in order.
fn content(store: &Store) -> zrecord::Result<Vec<u8>> {
    let mut bytes = vec![0; 4 * usize::try_from(store.len()?).unwrap()];
    store.gather_rows(&(0..store.len()?).collect::<Vec<_>>(), &mut bytes)?;
    Ok(bytes)
}

#[test]
fn a_flipped_bit_in_the_header_is_mended_refused_or_looks_like_a_plain_writers_delete() {
    for at in 0..HEADER {
        for by in [1, 0x10, 0x80] {
            let home = tempfile::tempdir().unwrap();
            let path = store(home.path(), false);
            flip(&path.join("meta.zr"), at, by);
            match open(&path) {
                // Our own part: the slot has it whole, so nothing is lost, not even the sums.
                Ok(store) if at >= 22 => {
                    assert_eq!(content(&store).unwrap(), [7; 40], "byte {at}");
                    assert!(store.sums_known().unwrap(), "byte {at}");
                }
                // A plain writer's part. A smaller length can't be told from a plain delete; all else is noticed.
                Ok(store) => {
                    assert!(!store.sums_known().unwrap(), "byte {at}");
                    assert!(store.len().unwrap() <= 10, "byte {at}");
                    assert!(content(&store).unwrap().iter().all(|&b| b == 7), "byte {at}");
                }
                Err(
                    Error::CorruptStore { .. }
                    | Error::NotAStore { .. }
                    | Error::UnsupportedVersion { .. }
                    | Error::UnsupportedCodec { .. },
                ) => assert!(at < 22, "byte {at}"),
                Err(e) => panic!("byte {at}: {e}"),
            }
        }
    }
}

#[test]
fn a_plain_writer_in_a_store_with_shapes_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = store(home.path(), true);
    flip(&path.join("meta.zr"), 14, 1);
    assert!(matches!(open(&path), Err(Error::CorruptStore { .. })));
}

#[test]
fn either_slot_may_be_lost_and_what_lies_behind_them_is_ignored() {
    let home = tempfile::tempdir().unwrap();
    let path = store(home.path(), false);
    patch(&path.join("sync.zr"), |bytes| bytes.push(1));
    assert_eq!(content(&open(&path).unwrap()).unwrap(), [7; 40]);
    for cut in [600, 100, 0] {
        patch(&path.join("sync.zr"), |bytes| bytes.truncate(cut));
        assert_eq!(content(&open(&path).unwrap()).unwrap(), [7; 40], "cut at {cut}");
    }
}

#[test]
fn an_intent_that_promises_too_much_is_none() {
    let home = tempfile::tempdir().unwrap();
    let path = store(home.path(), false);
    let intent = std::fs::File::create(path.join("intent.zr")).unwrap();
    // Sparse: reading it whole would take more memory than there is.
    intent.set_len(1 << 43).unwrap();
    let store = open(&path).unwrap();
    assert_eq!(content(&store).unwrap(), [7; 40]);
    store.append(&Records::rows(b"more", 1).unwrap(), None).unwrap();
    assert!(!path.join("intent.zr").exists());
}

#[test]
fn a_damaged_length_asks_for_no_memory() {
    let home = tempfile::tempdir().unwrap();
    let path = store(home.path(), false);
    let damage = || patch(&path.join("0.loc"), |bytes| bytes.get_mut(4..12).unwrap().fill(0xFF));
    damage();
    // Where all records are alike nobody asks the table.
    assert_eq!(open(&path).unwrap().lengths(&[1, 0]).unwrap(), [4, 4]);
    patch(&path.join("0.loc"), |bytes| bytes.copy_within(20..28, 4));
    open(&path).unwrap().append(&Records::rows(b"other", 1).unwrap(), None).unwrap();
    damage();
    let store = open(&path).unwrap();
    assert!(matches!(store.lengths(&[0]), Err(Error::CorruptRecord { record: 0, .. })));
    assert!(matches!(store.packed_offsets(&[1, 0]), Err(Error::CorruptRecord { record: 0, .. })));
    assert_eq!(store.lengths(&[1]).unwrap(), [4]);
}

#[test]
fn every_changed_byte_of_a_record_or_its_row_is_noticed() {
    for (name, shapes) in [("0.chunk", false), ("0.loc", false), ("0.sum", false), ("0.shape", true)] {
        let home = tempfile::tempdir().unwrap();
        let path = store(home.path(), shapes);
        let length = std::fs::read(path.join(name)).unwrap().len();
        for at in 0..length {
            flip(&path.join(name), at, 0x11);
            match open(&path).and_then(|store| content(&store)) {
                Err(Error::CorruptRecord { .. } | Error::CorruptStore { .. }) => {}
                // The records are alike: an offset that points at another one's bytes is no wrong answer.
                Ok(bytes) => assert_eq!(bytes, [7; 40], "{name}, byte {at}"),
                Err(e) => panic!("{name}, byte {at}: {e}"),
            }
            flip(&path.join(name), at, 0x11);
        }
    }
}

#[test]
fn a_new_store_takes_no_schema_from_an_interrupted_creation() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("schema.msgpack"), b"of another store").unwrap();
    Store::create(home.path(), Options::new()).unwrap();
    assert!(!home.path().join("schema.msgpack").exists());
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("notes.tmp"), b"the user's").unwrap();
    assert!(matches!(Store::create(other.path(), Options::new()), Err(Error::NotAStore { .. })));
}
