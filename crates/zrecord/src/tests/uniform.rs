//! Stores whose records are all alike: when the header says so, and that what is read by arithmetic is what the table says.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use crate::codec::Codec;
use crate::error::Error;
use crate::format::{FLAG_UNIFORM, Header};
use crate::options::{Options, Verify};
use crate::storage::memory::MemoryDirectory;
use crate::storage::{Access, Directory, RealDirectory};
use crate::store::Store;
use crate::verify::verify_in;
use crate::{Records, Shape};

fn options(chunk_limit: u32) -> Options {
    Options::new().codec(Codec::Raw).chunk_limit(chunk_limit)
}

/// Records 0.. of `length` bytes each, none like another.
fn rows(records: Range<u8>, length: usize) -> Vec<u8> {
    records.flat_map(|record| iter::repeat_n(record, length)).collect()
}

fn append(store: &Store, records: Range<u8>, length: usize) {
    let count = records.len();
    store.append(&Records::rows(&rows(records, length), count).unwrap(), None).unwrap();
}

fn is_uniform(dir: &Arc<dyn Directory>) -> bool {
    let mut bytes = [0; Header::SIZE];
    dir.open("meta.zr", Access::Read).unwrap().read_at(&mut bytes, 0).unwrap();
    Header::decode(&bytes).unwrap().0.has(FLAG_UNIFORM)
}

fn memory() -> Arc<dyn Directory> {
    Arc::new(MemoryDirectory::new())
}

/// A directory that offers maps, and one that doesn't.
fn both(test: &dyn Fn(Arc<dyn Directory>)) {
    test(memory());
    let home = tempfile::tempdir().unwrap();
    test(Arc::new(RealDirectory::new(home.path(), true)));
}

fn gathered(store: &Store, idxs: &[u64], length: usize) -> Vec<u8> {
    let mut found = vec![0xEE; idxs.len() * length];
    store.gather_rows(idxs, &mut found).unwrap();
    found
}

/// Store 20 records of `length` bytes in the given steps, and read them in every way.
fn stored_in_steps(dir: &Arc<dyn Directory>, length: usize, chunk_limit: u32, steps: &[u8]) {
    let store = Store::create_in(dir.clone(), options(chunk_limit)).unwrap();
    let mut from = 0;
    for &to in steps {
        append(&store, from..to, length);
        from = to;
        assert!(is_uniform(dir), "{to} of {length} bytes in chunks of {chunk_limit}");
    }
    store.close().unwrap();
    let order: Vec<u8> = (0..20).rev().chain([3, 3, 19]).collect();
    let idxs: Vec<u64> = order.iter().map(|&record| record.into()).collect();
    let expected: Vec<u8> = order.iter().flat_map(|&record| rows(record..record + 1, length)).collect();
    for verify in [Verify::Always, Verify::Once, Verify::Never] {
        let store = Store::open_in(dir.clone(), options(chunk_limit).verify(verify)).unwrap();
        for _ in 0..2 {
            assert_eq!(gathered(&store, &idxs, length), expected, "{verify:?}");
        }
        assert_eq!(store.lengths(&[0, 19]).unwrap(), [u32::try_from(length).unwrap(); 2]);
    }
}

#[test]
fn records_of_one_length_are_found_by_arithmetic_however_they_came() {
    for length in [1, 2, 3, 4, 8, 16, 17] {
        // Chunks of one record, of a few, and one for all.
        let row = u32::try_from(length).unwrap();
        for chunk_limit in [1, row, 3 * row + 1, u32::MAX] {
            for steps in [&[1, 6, 7, 20][..], &[20], &[10, 20]] {
                stored_in_steps(&memory(), length, chunk_limit, steps);
            }
            both(&|dir| stored_in_steps(&dir, length, chunk_limit, &[6, 20]));
        }
    }
}

#[test]
fn a_record_of_another_length_ends_it_and_so_does_all_that_moves_records() {
    type Change = (&'static str, fn(&Store));
    let changes: [Change; 5] = [
        ("delete the last", |store| store.delete(&[9]).unwrap()),
        ("longer", |store| append(store, 50..51, 5)),
        ("shorter", |store| append(store, 50..51, 3)),
        ("empty", |store| append(store, 50..51, 0)),
        ("delete", |store| store.delete(&[2]).unwrap()),
    ];
    for (name, change) in changes {
        let dir = memory();
        let store = Store::create_in(dir.clone(), options(13)).unwrap();
        append(&store, 0..10, 4);
        assert!(is_uniform(&dir));
        change(&store);
        assert!(!is_uniform(&dir), "{name}");
        append(&store, 60..64, 4);
        assert!(!is_uniform(&dir), "{name}, and more");
        let last = store.len().unwrap() - 1;
        assert_eq!(gathered(&store, &[last, 0], 4), [rows(63..64, 4), rows(0..1, 4)].concat(), "{name}");
    }
}

#[test]
fn a_store_that_is_compressed_empty_or_divided_unevenly_is_not() {
    let dir = memory();
    let store = Store::create_in(dir.clone(), Options::new().codec(Codec::Zstd)).unwrap();
    append(&store, 0..10, 4);
    assert!(!is_uniform(&dir));

    let dir = memory();
    let store = Store::create_in(dir.clone(), options(100)).unwrap();
    append(&store, 0..10, 0);
    assert!(!is_uniform(&dir));

    // Two writers that fill chunks to different lengths.
    let dir = memory();
    Store::create_in(dir.clone(), options(8)).unwrap();
    for (limit, records, expected) in [(8, 0..3, true), (12, 3..8, false), (8, 8..12, false)] {
        let store = Store::open_in(dir.clone(), options(limit)).unwrap();
        append(&store, records.clone(), 4);
        assert_eq!(is_uniform(&dir), expected, "{records:?}");
        let idxs: Vec<u64> = (0..records.end.into()).collect();
        assert_eq!(gathered(&store, &idxs, 4), rows(0..records.end, 4));
    }
}

#[test]
fn shapes_are_part_of_the_sums_there_too() {
    let dir = memory();
    let store = Store::create_in(dir.clone(), options(u32::MAX)).unwrap();
    let shapes = [Shape([3, 2, 2, 0, 0, 0, 0, 0]), Shape::default()];
    store.append(&Records::rows(&rows(0..2, 4), 2).unwrap(), Some(&shapes)).unwrap();
    assert!(is_uniform(&dir));
    assert_eq!(gathered(&store, &[1, 0], 4), [rows(1..2, 4), rows(0..1, 4)].concat());
    assert_eq!(store.shapes(&[1, 0]).unwrap(), [shapes[1], shapes[0]]);
}

fn damaged_where_it_matters_and_where_not(dir: &Arc<dyn Directory>, limit: u32) {
    let store = Store::create_in(dir.clone(), options(limit)).unwrap();
    append(&store, 0..10, 4);
    store.close().unwrap();
    let loc = dir.open("0.loc", Access::Write).unwrap();
    loc.write_at(&[0xFF; 12], 16 * 6).unwrap();
    for verify in [Verify::Always, Verify::Once, Verify::Never] {
        let store = Store::open_in(dir.clone(), options(limit).verify(verify)).unwrap();
        assert_eq!(gathered(&store, &[6, 5], 4), [rows(6..7, 4), rows(5..6, 4)].concat(), "{verify:?}");
    }
    let found = verify_in(dir, &options(limit), &mut |_| true).unwrap();
    assert_eq!(found.damaged, [6]);

    let (chunk, at) = if limit < 40 { ("1.chunk", 5) } else { ("0.chunk", 17) };
    dir.open(chunk, Access::Write).unwrap().write_at(&[0xFF], at).unwrap();
    for verify in [Verify::Always, Verify::Once] {
        let store = Store::open_in(dir.clone(), options(limit).verify(verify)).unwrap();
        let outcome = store.gather_rows(&[3, 4, 5], &mut [0; 12]);
        assert!(matches!(outcome, Err(Error::CorruptRecord { record: 4, .. })), "{outcome:?}");
    }
}

#[test]
fn damaged_bytes_are_noticed_and_a_damaged_row_does_no_harm_but_is_reported() {
    for limit in [13, u32::MAX] {
        both(&|dir| damaged_where_it_matters_and_where_not(&dir, limit));
    }
}

#[test]
fn a_place_of_another_length_is_a_mismatch() {
    let dir = memory();
    let store = Store::create_in(dir, options(13)).unwrap();
    append(&store, 0..10, 4);
    let outcome = store.gather_rows(&[3, 4], &mut [0; 10]);
    assert!(
        matches!(outcome, Err(Error::LengthMismatch { record: 3, found: 4, expected: 5 })),
        "{outcome:?}"
    );
}

#[test]
fn a_reader_that_sees_fewer_records_than_there_are_finds_them_where_they_are() {
    // Lengths that divide the tail, and that leave a whole number of records for each other chunk.
    for (chunk_limit, count, limits) in [(u32::MAX, 10, 1..10), (80, 15, 1..15), (40, 18, 1..18)] {
        both(&|dir| {
            let store = Store::create_in(dir.clone(), options(chunk_limit)).unwrap();
            append(&store, 0..count, 8);
            store.close().unwrap();
            for limit in limits.clone() {
                let store = Store::open_in(dir.clone(), options(chunk_limit).verify(Verify::Never)).unwrap();
                assert_eq!(store.limit(limit.into()).unwrap(), u64::from(limit));
                let idxs: Vec<u64> = (0..limit.into()).collect();
                assert_eq!(
                    gathered(&store, &idxs, 8),
                    rows(0..limit, 8),
                    "{limit} of {count} in {chunk_limit}"
                );
                assert_eq!(store.lengths(&idxs).unwrap(), vec![8; idxs.len()]);
                assert_eq!(store.refresh().unwrap(), u64::from(count));
                assert_eq!(gathered(&store, &[u64::from(count) - 1], 8), rows(count - 1..count, 8));
            }
        });
    }
}

#[test]
fn a_reader_follows_a_store_that_is_uniform_no_more() {
    both(&|dir| {
        let store = Store::create_in(dir.clone(), options(40)).unwrap();
        append(&store, 0..7, 8);
        let reader = Store::open_in(dir.clone(), options(40).verify(Verify::Never)).unwrap();
        assert_eq!(gathered(&reader, &[6, 0], 8), [rows(6..7, 8), rows(0..1, 8)].concat());
        append(&store, 7..8, 3);
        append(&store, 8..12, 8);
        assert_eq!(gathered(&reader, &[6, 5], 8), [rows(6..7, 8), rows(5..6, 8)].concat());
        assert_eq!(reader.refresh().unwrap(), 12);
        assert_eq!(gathered(&reader, &[11, 6], 8), [rows(11..12, 8), rows(6..7, 8)].concat());
        assert_eq!(reader.lengths(&[6, 7, 8]).unwrap(), [8, 3, 8]);
    });
}

#[test]
fn what_a_foreign_writer_changed_is_found_by_the_table() {
    let dir = memory();
    let store = Store::create_in(dir.clone(), options(u32::MAX)).unwrap();
    append(&store, 0..6, 8);
    store.close().unwrap();
    // A plain writer's swap-last of record 1, and its header with the reserved bytes as they were.
    let (loc, meta) =
        (dir.open("0.loc", Access::Write).unwrap(), dir.open("meta.zr", Access::Write).unwrap());
    let mut last = [0; 16];
    loc.read_at(&mut last, 16 * 5).unwrap();
    loc.write_at(&last, 16).unwrap();
    meta.write_at(&5_u64.to_le_bytes(), 14).unwrap();
    for verify in [Verify::Always, Verify::Never] {
        let store = Store::open_in(dir.clone(), options(u32::MAX).verify(verify)).unwrap();
        assert_eq!(gathered(&store, &[1, 2], 8), [rows(5..6, 8), rows(2..3, 8)].concat());
    }
}

#[test]
fn a_compaction_that_moves_nothing_leaves_it_as_it_is() {
    for limit in [13, u32::MAX] {
        both(&|dir| {
            let store = Store::create_in(dir.clone(), options(limit)).unwrap();
            append(&store, 0..10, 4);
            store.compact().unwrap();
            assert!(is_uniform(&dir));
            append(&store, 10..12, 4);
            assert!(is_uniform(&dir));
            assert_eq!(gathered(&store, &[11, 4], 4), [rows(11..12, 4), rows(4..5, 4)].concat());
        });
    }
}

/// What loaderx 1.5.7 leaves when it deletes `count` records from `first` on, compacts, and appends as many: the same header, and other rows.
fn deleted_compacted_and_appended(dir: &Arc<dyn Directory>, length: u8, first: u8, count: u8) -> Vec<u8> {
    let mut list: Vec<u8> = (0..length).collect();
    for hole in (first..first + count).rev() {
        list.swap_remove(hole.into());
    }
    // Its compaction keeps the physical order, which is that of the numbers here.
    let place = |record: u8| u32::try_from((0..record).filter(|other| list.contains(other)).count()).unwrap();
    let (loc, chunk) =
        (dir.open("0.loc", Access::Write).unwrap(), dir.open("0.chunk", Access::Write).unwrap());
    let appended: Vec<u8> = (100..100 + count).collect();
    for (slot, &record) in list.iter().chain(&appended).enumerate() {
        let at = if record < 100 { place(record) } else { u32::from(length - count + record - 100) };
        let entry = crate::format::Entry { offset: 8 * at, stored: 8, logical: 8, chunk: 0 };
        loc.write_at(&entry.encode(), 16 * slot as u64).unwrap();
        chunk.write_at(&[record; 8], u64::from(8 * at)).unwrap();
    }
    [list, appended].concat()
}

#[test]
fn a_foreign_writer_that_leaves_the_same_header_is_noticed() {
    for (first, count) in [(0, 1), (3, 1), (17, 1), (18, 1), (0, 2), (5, 3), (2, 7), (16, 2)] {
        let dir = memory();
        let store = Store::create_in(dir.clone(), options(u32::MAX)).unwrap();
        append(&store, 0..20, 8);
        store.close().unwrap();
        let list = deleted_compacted_and_appended(&dir, 20, first, count);
        assert!(is_uniform(&dir));
        let expected: Vec<u8> = list.iter().flat_map(|&record| [record; 8]).collect();
        let store = Store::open_in(dir.clone(), options(u32::MAX).verify(Verify::Never)).unwrap();
        assert_eq!(gathered(&store, &(0..20).collect::<Vec<_>>(), 8), expected, "{count} from {first} on");
    }
}
