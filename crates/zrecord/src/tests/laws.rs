//! What delete and compact promise, one law a test.

use std::sync::Arc;

use super::twin::{DICT, Op, Row, Twin, append, apply, check_files, plain, read, record, shaped, small};
use crate::Store;
use crate::codec::Codec;
use crate::error::Error;
use crate::format::{Entry, Header, take};
use crate::options::Options;
use crate::storage::memory::MemoryDirectory;
use crate::storage::{Access, Directory, RealDirectory};

fn rows(lengths: &[usize]) -> Vec<Row> {
    lengths.iter().zip(0..).map(|(&length, i)| plain(record(i, length))).collect()
}

/// A store of one append.
fn store_of(options: &Options, rows: &[Row]) -> (MemoryDirectory, Store) {
    let dir = MemoryDirectory::new();
    let store = Store::create_in(Arc::new(dir.clone()), options.clone()).unwrap();
    append(&store, rows).unwrap();
    (dir, store)
}

fn chunk_lengths(dir: &MemoryDirectory) -> Vec<usize> {
    let contents = dir.contents();
    (0..).map_while(|i| contents.get(&format!("{i}.chunk")).map(Vec::len)).collect()
}

fn overwrite(dir: &MemoryDirectory, name: &str, bytes: &[u8], at: u64) {
    dir.open(name, Access::Write).unwrap().write_at(bytes, at).unwrap();
}

fn entry(dir: &MemoryDirectory, record: usize) -> Entry {
    let bytes = &dir.contents()[&format!("{}.loc", record / 4)][record % 4 * 16..][..16];
    Entry::decode(bytes.try_into().unwrap())
}

fn set_entry(dir: &MemoryDirectory, record: usize, entry: &Entry) {
    overwrite(dir, &format!("{}.loc", record / 4), &entry.encode(), (record % 4 * 16) as u64);
}

#[test]
fn order_and_duplicates_do_not_matter_to_delete() {
    let data = rows(&[5, 9, 0, 7, 3, 8, 8, 1, 20]);
    let twin = Twin(data.clone()).after(&Op::Delete(vec![1, 4, 8]));
    for idxs in [vec![1, 4, 8], vec![8, 4, 1], vec![4, 8, 1, 4, 4, 8]] {
        let (dir, store) = store_of(&small(Codec::Raw), &data);
        store.delete(&idxs).unwrap();
        assert_eq!(read(&store).unwrap(), twin);
        check_files(&dir, &store);
    }
}

#[test]
fn deleting_nothing_changes_nothing() {
    let (dir, store) = store_of(&small(Codec::Raw), &rows(&[5, 9, 4]));
    store.sync().unwrap();
    let before = dir.contents();
    store.delete(&[]).unwrap();
    assert_eq!(dir.contents(), before);
    let out_of_range = store.delete(&[0, 3]);
    assert!(matches!(out_of_range, Err(Error::IndexOutOfRange { index: 3, length: 3 })), "{out_of_range:?}");
    assert_eq!(dir.contents(), before);
}

#[test]
fn deleting_all_and_compacting_leaves_no_table_and_no_chunk() {
    let data: Vec<Row> = (0..9).map(|i| shaped(record(i, 30), 5)).collect();
    let (dir, store) = store_of(&small(Codec::Raw), &data);
    store.delete(&[8, 0, 1, 2, 3, 4, 5, 6, 7, 0]).unwrap();
    assert_eq!((store.len().unwrap(), store.stats().unwrap().reclaimable), (0, 270));
    store.compact().unwrap();
    assert_eq!(store.stats().unwrap(), crate::Stats::default());
    let names: Vec<String> = dir.list().unwrap();
    assert_eq!(names, ["lock.zr", "meta.zr", "sync.zr"]);
    append(&store, &data).unwrap();
    assert_eq!(read(&store).unwrap(), Twin(data));
}

#[test]
fn compaction_gives_back_what_was_deleted_in_each_codec() {
    for codec in Codec::ALL {
        let options = small(codec).chunk_limit(1000);
        let dir = MemoryDirectory::new();
        let shared: Arc<dyn Directory> = Arc::new(dir.clone());
        let mut store = Some(Store::create_in(shared.clone(), options.clone()).unwrap());
        let mut twin = Twin::default();
        let data: Vec<Row> = (0..200).map(|i| plain(record(i, 40))).collect();
        let ops = [Op::InstallDict, Op::Append(data), Op::Delete((0..200).step_by(2).collect())];
        for op in &ops {
            apply(&shared, &options, &mut store, op).unwrap();
            twin = twin.after(op);
        }
        let store = store.unwrap();
        let (before, chunks) = (store.stats().unwrap(), chunk_lengths(&dir).len());
        let generation = store.generation().unwrap();
        store.compact().unwrap();
        let after = store.stats().unwrap();
        assert_eq!(after.live_bytes, before.live_bytes);
        assert_eq!(after.chunk_bytes, before.live_bytes);
        assert_eq!(after.reclaimable, 0);
        assert!(before.reclaimable > 2000 && chunk_lengths(&dir).len() < chunks);
        assert_eq!(chunk_lengths(&dir).iter().sum::<usize>() as u64, after.chunk_bytes);
        assert!(store.generation().unwrap() > generation);
        assert_eq!(read(&store).unwrap(), twin);
        check_files(&dir, &store);
    }
}

#[test]
fn records_move_by_less_than_their_own_length() {
    // Windows are 48 bytes in tests: some of these records are longer, and some windows hold several.
    for gap in [1, 3, 10, 47] {
        let mut data = rows(&[gap, 40, 60, 9, 9, 9, 9, 9, 9, 9, 130, 2, 40]);
        data.push(shaped(record(99, 30), 5));
        let (dir, store) = store_of(&small(Codec::Raw).chunk_limit(10_000), &data);
        store.delete(&[0]).unwrap();
        store.compact().unwrap();
        assert_eq!(read(&store).unwrap(), Twin(data.clone()).after(&Op::Delete(vec![0])));
        let live: usize = data.iter().map(|(bytes, _)| bytes.len()).sum::<usize>() - gap;
        assert_eq!(chunk_lengths(&dir), [live]);
        check_files(&dir, &store);
    }
}

#[test]
fn another_chunk_limit_than_the_writer_had_is_fine() {
    let lengths: Vec<usize> = (0..40).map(|i| 10 + i * 7 % 30).collect();
    for (written, compacted) in [(90, 1000), (1000, 90), (1000, 1), (1, 1000), (90, 90)] {
        let data = rows(&lengths);
        let (dir, store) = store_of(&small(Codec::Raw).chunk_limit(written), &data);
        store.delete(&[0, 7, 20]).unwrap();
        store.close().unwrap();
        let options = small(Codec::Raw).chunk_limit(compacted);
        let store = Store::open_in(Arc::new(dir.clone()), options).unwrap();
        store.compact().unwrap();
        assert_eq!(read(&store).unwrap(), Twin(data).after(&Op::Delete(vec![0, 7, 20])));
        assert_eq!(store.stats().unwrap().reclaimable, 0);
        check_files(&dir, &store);
    }
}

#[test]
fn records_without_bytes_stay_before_the_tail() {
    let (dir, store) = store_of(&small(Codec::Raw), &rows(&[90, 90, 90, 0, 0, 50, 0]));
    assert_eq!(entry(&dir, 6).chunk, 3);
    store.delete(&[0, 2]).unwrap();
    store.compact().unwrap();
    let header: [u8; Header::SIZE] = dir.contents()["meta.zr"].as_slice().try_into().unwrap();
    let (header, _) = Header::decode(&header).unwrap();
    for record in 0..5 {
        let entry = entry(&dir, record);
        assert!((entry.chunk, entry.offset) <= (header.tail_chunk, header.tail_offset), "{entry:?}");
    }
    let expected = Twin(rows(&[90, 90, 90, 0, 0, 50, 0])).after(&Op::Delete(vec![0, 2]));
    assert_eq!(read(&store).unwrap(), expected);
}

#[test]
fn a_damaged_record_moves_as_it_is_and_is_still_noticed() {
    let data = rows(&[30, 31, 32, 33]);
    let (dir, store) = store_of(&small(Codec::Raw), &data);
    overwrite(&dir, "0.chunk", b"\xFF", 35);
    store.delete(&[0]).unwrap();
    store.compact().unwrap();
    let twin = Twin(data).after(&Op::Delete(vec![0]));
    for (i, (bytes, _)) in twin.0.iter().enumerate() {
        let mut found = vec![0; bytes.len()];
        match store.gather(&[i as u64], &mut found, &[0]) {
            Ok(()) => assert_eq!(found, *bytes),
            Err(e) => assert!(i == 1 && matches!(e, Error::CorruptRecord { .. }), "{e}"),
        }
        assert_eq!(found == *bytes, i != 1);
    }
}

#[test]
fn preallocated_chunks_count_up_to_their_last_record() {
    let home = tempfile::tempdir().unwrap();
    let dir: Arc<dyn Directory> = Arc::new(RealDirectory::new(home.path(), false));
    let store = Store::create_in(dir.clone(), small(Codec::Raw)).unwrap();
    append(&store, &rows(&[30, 40, 50, 60, 70])).unwrap();
    store.delete(&[0]).unwrap();
    let before = store.stats().unwrap();
    let chunk = dir.open("0.chunk", Access::Write).unwrap();
    chunk.set_len(1 << 32).unwrap();
    assert_eq!(store.stats().unwrap(), before);
    assert_eq!((before.chunk_bytes, before.live_bytes, before.reclaimable), (250, 220, 30));
    store.compact().unwrap();
    assert_eq!(chunk.len().unwrap(), 90);
    check_files(&*dir, &store);
}

/// Compaction refuses a table that can't be right, names the record, and changes no byte.
fn refuses(change: impl Fn(&MemoryDirectory)) {
    let (dir, store) = store_of(&small(Codec::Raw), &rows(&[30, 31, 32, 33, 20, 70]));
    store.delete(&[0]).unwrap();
    store.sync().unwrap();
    change(&dir);
    let before = dir.contents();
    let outcome = store.compact();
    assert!(matches!(outcome, Err(Error::CorruptRecord { record: 2, .. })), "{outcome:?}");
    assert_eq!(dir.contents(), before);
}

#[test]
fn compaction_refuses_records_that_overlap() {
    refuses(|dir| {
        let entry = Entry { offset: entry(dir, 2).offset - 1, ..entry(dir, 2) };
        set_entry(dir, 2, &entry);
    });
}

#[test]
fn compaction_refuses_records_beyond_the_tail_and_beyond_their_chunk() {
    refuses(|dir| set_entry(dir, 2, &Entry { chunk: 9, ..entry(dir, 2) }));
    refuses(|dir| set_entry(dir, 2, &Entry { chunk: u32::MAX, offset: u32::MAX, ..entry(dir, 2) }));
    refuses(|dir| set_entry(dir, 2, &Entry { offset: 1 << 20, ..entry(dir, 2) }));
    refuses(|dir| set_entry(dir, 2, &Entry { stored: 5, ..entry(dir, 2) }));
}

#[test]
fn no_files_are_made_for_a_forged_length() {
    let options = small(Codec::Raw);
    let (dir, store) = store_of(&options, &rows(&[5, 6, 7, 8, 9]));
    store.close().unwrap();
    let header =
        Header { length: 4 * 200 + 1, ..Header::decode(&take(&dir.contents()["meta.zr"], 0)).unwrap().0 };
    overwrite(&dir, "meta.zr", &header.encode(), 0);
    dir.remove("sync.zr").unwrap();
    // Opening looks at the last segments only.
    overwrite(&dir, "200.loc", &entry(&dir, 0).encode(), 0);
    overwrite(&dir, "200.sum", &[0; 4], 0);
    let store = Store::open_in(Arc::new(dir.clone()), options).unwrap();
    store.begin_write().unwrap();
    let before = dir.list().unwrap();
    let outcome = append(&store, &[shaped(record(0, 6), 3)]);
    assert!(matches!(outcome, Err(Error::CorruptStore { .. })), "{outcome:?}");
    assert_eq!(dir.list().unwrap(), before);
}

#[test]
fn a_damaged_length_asks_for_no_memory_to_try_a_dictionary() {
    let options = small(Codec::ZstdDict);
    let dir = MemoryDirectory::new();
    let shared: Arc<dyn Directory> = Arc::new(dir.clone());
    let mut store = Some(Store::create_in(shared.clone(), options.clone()).unwrap());
    for op in [Op::InstallDict, Op::Append(rows(&[5, 6]))] {
        apply(&shared, &options, &mut store, &op).unwrap();
    }
    drop(store);
    // As in a plain version 3 store, nothing says which dictionary it was.
    for name in ["sync.zr", "dict.zr"] {
        dir.remove(name).unwrap();
    }
    let whole = entry(&dir, 0);
    for logical in [1 << 30, u32::MAX] {
        set_entry(&dir, 0, &Entry { logical, ..whole });
        let refused =
            Store::open_in(shared.clone(), options.clone()).unwrap().install_dict(&DICT).unwrap_err();
        assert!(refused.to_string().contains("record 0 is damaged"), "{refused}");
    }
    set_entry(&dir, 0, &whole);
    Store::open_in(shared, options).unwrap().install_dict(&DICT).unwrap();
}
