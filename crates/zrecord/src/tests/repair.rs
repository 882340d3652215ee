//! What `verify` finds, and what `repair` makes of it.

use std::sync::Arc;

use super::twin::{Op, Row, Twin, append, apply, check_usable, plain, read, record, shaped, small};
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::format::{FLAG_SUMS, Header};
use crate::options::Options;
use crate::repair::{Repair, Repaired, repair_in};
use crate::storage::faulty::{FaultyDirectory, Fuse};
use crate::storage::memory::MemoryDirectory;
use crate::storage::{Access, Directory};
use crate::verify::{Report, verify_in};
use crate::{Store, format};

pub(super) const DROP: Repair = Repair { drop_damaged: true, rebuild_sums: false };

/// A closed store that has seen a delete, so that records don't lie in their order; some are empty.
fn sample(codec: Codec, ragged: bool) -> (MemoryDirectory, Options, Twin) {
    let (dir, options) = (MemoryDirectory::new(), small(codec));
    let door: Arc<dyn Directory> = Arc::new(dir.clone());
    let mut store = Some(Store::create_in(door.clone(), options.clone()).unwrap());
    let rows: Vec<Row> = (0..15)
        .map(|i| {
            let bytes = record(i, usize::try_from(i * 7 % 5 * 6).unwrap());
            if ragged && i % 3 > 0 { shaped(bytes, 2) } else { plain(bytes) }
        })
        .collect();
    let mut twin = Twin::default();
    for op in [Op::InstallDict, Op::Append(rows), Op::Delete(vec![1, 6]), Op::Reopen] {
        apply(&door, &options, &mut store, &op).unwrap();
        twin = twin.after(&op);
    }
    (dir, options, twin)
}

fn kinds() -> impl Iterator<Item = (Codec, bool)> {
    Codec::ALL.into_iter().flat_map(|codec| [(codec, false), (codec, true)])
}

pub(super) fn verify(dir: &MemoryDirectory, options: &Options) -> Report {
    verify_in(&(Arc::new(dir.clone()) as _), options, &mut |_| true).unwrap()
}

pub(super) fn repair(dir: &MemoryDirectory, options: &Options, how: Repair) -> Result<Repaired> {
    repair_in(&(Arc::new(dir.clone()) as _), options, how, &mut |_| true)
}

fn open(dir: &MemoryDirectory, options: &Options) -> Result<Store> {
    Store::open_in(Arc::new(dir.clone()), options.clone())
}

fn overwrite(dir: &MemoryDirectory, name: &str, bytes: &[u8]) {
    let file = dir.open(name, Access::Write).unwrap();
    file.set_len(0).unwrap();
    file.write_at(bytes, 0).unwrap();
}

/// What a plain version 3 writer leaves of the store: no extension in the header, none of our files.
fn make_plain(dir: &MemoryDirectory) {
    let mut header = dir.contents()["meta.zr"].clone();
    header[22..].fill(0);
    overwrite(dir, "meta.zr", &header);
    for name in dir.list().unwrap() {
        if [".sum", ".shape", "sync.zr", "lock.zr"].iter().any(|end| name.ends_with(end)) {
            dir.remove(&name).unwrap();
        }
    }
}

/// All that is left is right, and it is all that was not dropped.
fn check_repaired(dir: &MemoryDirectory, options: &Options, before: &Twin, done: &Repaired) {
    let expected = before.after(&Op::Delete(done.dropped.clone()));
    let report = verify(dir, options);
    assert!(report.is_sound() && report.sums_known, "{report:?}");
    let store = open(dir, options).unwrap();
    assert_eq!(read(&store).unwrap(), expected);
    check_usable(dir, options, store, &expected);
}

#[test]
fn a_sound_store_is_found_sound_and_stays_as_it_is() {
    for (codec, ragged) in kinds() {
        let (dir, options, twin) = sample(codec, ragged);
        let before = dir.contents();
        let report = verify(&dir, &options);
        assert!(report.is_sound(), "{report:?}");
        assert!(report.sums_known && !report.unfinished && report.torn == 0);
        assert_eq!((report.records, report.sound), (twin.0.len() as u64, twin.0.len() as u64));
        assert_eq!(report.bytes, open(&dir, &options).unwrap().stats().unwrap().live_bytes);
        let done = repair(&dir, &options, DROP).unwrap();
        assert!(done.dropped.is_empty() && !done.sums_rebuilt && !done.header_restored && !done.finished);
        let mut after = dir.contents();
        after.remove("lock.zr");
        assert!(before.iter().all(|(name, bytes)| name == "lock.zr" || after[name] == *bytes));
    }
}

#[test]
fn every_changed_byte_of_records_and_rows_is_found_and_only_those_records_are_cut_out() {
    for (codec, ragged) in kinds() {
        let (dir, options, twin) = sample(codec, ragged);
        let live = open(&dir, &options).unwrap().stats().unwrap();
        let (mut tried, mut silent) = (0, 0);
        for (name, bytes) in dir.contents() {
            if ![".chunk", ".loc", ".sum", ".shape"].iter().any(|end| name.ends_with(end)) {
                continue;
            }
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 0x11;
                let dir = dir.copy();
                overwrite(&dir, &name, &changed);
                let report = verify(&dir, &options);
                tried += 1;
                silent += u64::from(report.is_sound());
                // An offset that is damaged can lie in another record.
                assert!(report.damaged.len() <= 2, "{codec:?}, {name}, byte {at}: {report:?}");
                let done = repair(&dir, &options, DROP).unwrap();
                assert_eq!(done.found.damaged, report.damaged);
                check_repaired(&dir, &options, &twin, &done);
            }
        }
        // Dead bytes of chunks, and the places of empty records, say nothing.
        let empty = twin.0.iter().filter(|(bytes, _)| bytes.is_empty()).count() as u64;
        let free = live.reclaimable + if codec == Codec::Raw { empty * 8 } else { 0 };
        assert!(silent <= free, "{codec:?}: {silent} of {tried} changes were not noticed");
        assert!(tried > 400);
    }
}

#[test]
fn every_cut_of_a_table_or_chunk_costs_only_what_was_cut_off() {
    for (codec, ragged) in kinds() {
        let (dir, options, twin) = sample(codec, ragged);
        for (name, bytes) in dir.contents() {
            let width = match name.rsplit('.').next().unwrap() {
                "loc" => 16,
                "sum" => 4,
                "shape" => 32,
                "chunk" => 1,
                _ => continue,
            };
            for length in 0..bytes.len() {
                let dir = dir.copy();
                overwrite(&dir, &name, &bytes[..length]);
                let report = verify(&dir, &options);
                let lost = (bytes.len() - length).div_ceil(width);
                assert!(report.damaged.len() <= lost, "{name} cut at {length}: {report:?}");
                if width > 1 {
                    assert_eq!(report.damaged.len(), lost, "{name} cut at {length}: {report:?}");
                }
                // Without leave nothing goes, and nothing is made up.
                let stays = dir.copy();
                let done = repair(&stays, &options, Repair::default()).unwrap();
                assert_eq!(done.found.damaged, report.damaged);
                assert_eq!(verify(&stays, &options).damaged, report.damaged, "{name} cut at {length}");
                let done = repair(&dir, &options, DROP).unwrap();
                check_repaired(&dir, &options, &twin, &done);
            }
        }
    }
}

#[test]
fn a_missing_file_costs_only_its_records() {
    let (dir, options, twin) = sample(Codec::Raw, true);
    for name in dir.list().unwrap() {
        let dir = dir.copy();
        dir.remove(&name).unwrap();
        let done = repair(&dir, &options, DROP).unwrap();
        assert_eq!(done.header_restored, name == "meta.zr");
        assert!(done.dropped.len() < twin.0.len(), "{name}");
        check_repaired(&dir, &options, &twin, &done);
    }
}

#[test]
fn sums_that_a_plain_writer_left_unknown_are_made() {
    for codec in Codec::ALL {
        let (dir, options, twin) = sample(codec, false);
        make_plain(&dir);
        let report = verify(&dir, &options);
        assert!(report.is_sound() && !report.sums_known, "{report:?}");
        let done = repair(&dir, &options, Repair::default()).unwrap();
        assert!(done.sums_rebuilt && done.found.is_sound());
        check_repaired(&dir, &options, &twin, &done);
    }
}

#[test]
fn damaged_sums_can_be_made_anew_from_the_bytes() {
    for (codec, ragged) in kinds() {
        let (dir, options, twin) = sample(codec, ragged);
        let sums: Vec<String> =
            dir.list().unwrap().into_iter().filter(|name| name.ends_with(".sum")).collect();
        for name in sums {
            overwrite(&dir, &name, &[7; 3]);
        }
        assert_eq!(verify(&dir, &options).damaged.len(), twin.0.len());
        let done = repair(&dir, &options, Repair { rebuild_sums: true, drop_damaged: true }).unwrap();
        assert!(done.sums_rebuilt && done.dropped.is_empty(), "{done:?}");
        check_repaired(&dir, &options, &twin, &done);
    }
}

#[test]
fn undecodable_records_of_a_store_without_sums_stay_damaged() {
    let (dir, options, twin) = sample(Codec::Zstd, false);
    make_plain(&dir);
    let mut chunk = dir.contents()["0.chunk"].clone();
    chunk[..4].fill(0);
    overwrite(&dir, "0.chunk", &chunk);
    let done = repair(&dir, &options, Repair::default()).unwrap();
    assert_eq!(done.found.damaged.len(), 1);
    assert!(done.sums_rebuilt && done.dropped.is_empty());
    assert_eq!(verify(&dir, &options).damaged, done.found.damaged);
    let done = repair(&dir, &options, DROP).unwrap();
    assert_eq!(done.dropped.len(), 1);
    check_repaired(&dir, &options, &twin, &done);
}

#[test]
fn a_lost_header_is_made_anew_with_what_was_appended_since_the_sync() {
    for (codec, ragged) in kinds() {
        let (dir, options, twin) = sample(codec, ragged);
        let store = open(&dir, &options).unwrap();
        let more = vec![shaped(record(90, 12), 3), plain(record(91, 0)), plain(record(92, 55))];
        append(&store, &more).unwrap();
        let twin = twin.after(&Op::Append(more));
        // A copy, as a killed process leaves it: not closed, so not synced.
        let dir = dir.copy();
        let garbage: [&[u8]; 5] =
            [b"", b"ZREC", &[0; 32], &[0xFF; 32], b"ZREC\x04\0abcdefghijklmnopqrstuvwxyz"];
        for garbage in garbage {
            let dir = dir.copy();
            overwrite(&dir, "meta.zr", garbage);
            let report = verify(&dir, &options);
            assert!(!report.is_sound());
            let done = repair(&dir, &options, DROP).unwrap();
            assert!(done.header_restored && done.dropped.is_empty(), "{done:?}");
            check_repaired(&dir, &options, &twin, &done);
        }
    }
}

#[test]
fn what_a_crash_left_is_reported_and_mended() {
    let (dir, options, twin) = sample(Codec::Raw, true);
    let (mut unfinished, mut torn) = (0, 0);
    for changes in 0.. {
        let left = dir.copy();
        let fuse = Fuse::after(changes, true);
        let faulty: Arc<dyn Directory> = Arc::new(FaultyDirectory::new(left.clone(), fuse.clone()));
        let store = Store::open_in(faulty, options.clone()).unwrap();
        let rows = vec![plain(record(50, 30)), plain(record(51, 30))];
        let complete =
            append(&store, &rows).and_then(|()| store.delete(&[0, 1])).and_then(|()| store.compact()).is_ok();
        let left = left.power_cut(&mut |n| n / 2);
        let report = verify(&left, &options);
        unfinished += u64::from(report.unfinished);
        torn += u64::from(report.torn > 0);
        assert!(report.is_sound() || report.unfinished, "cut at {changes}: {report:?}");
        let done = repair(&left, &options, Repair::default()).unwrap();
        assert_eq!((done.finished, done.torn), (report.unfinished, report.torn), "cut at {changes}");
        let report = verify(&left, &options);
        assert!(report.is_sound() && !report.unfinished && report.torn == 0, "{report:?}");
        let content = read(&open(&left, &options).unwrap()).unwrap();
        let whole = twin.after(&Op::Append(rows));
        assert!(content.is_prefix(&whole, &twin) || content == whole.after(&Op::Delete(vec![0, 1])));
        if complete {
            break;
        }
    }
    assert!(unfinished > 3 && torn > 0, "{unfinished}, {torn}");
}

/// A store with something for every part of a repair to do, and what it holds after it.
pub(super) fn broken(codec: Codec) -> (MemoryDirectory, Options, Twin) {
    let (dir, options, twin) = sample(codec, false);
    make_plain(&dir);
    let mut entries = dir.contents()["1.loc"].clone();
    entries[4] = 0xFF;
    overwrite(&dir, "1.loc", &entries);
    (dir, options, twin.after(&Op::Delete(vec![4])))
}

/// A store that was killed behind its last sync and lost its header, and what it holds.
pub(super) fn lost_header(codec: Codec) -> (MemoryDirectory, Options, Twin) {
    let (dir, options, twin) = sample(codec, true);
    let store = open(&dir, &options).unwrap();
    let more = vec![shaped(record(90, 12), 3), plain(record(91, 0)), plain(record(92, 55))];
    append(&store, &more).unwrap();
    // A copy, as a killed process leaves it: not closed, so not synced.
    let dir = dir.copy();
    overwrite(&dir, "meta.zr", b"");
    (dir, options, twin.after(&Op::Append(more)))
}

#[test]
fn a_repair_can_be_interrupted_and_run_again() {
    let (base, options, twin) = broken(Codec::Zstd);
    for looks in 0.. {
        let dir = base.copy();
        let mut left = looks;
        let mut watch = |_| {
            let go_on = left > 0;
            left -= i32::from(go_on);
            go_on
        };
        let outcome = repair_in(&(Arc::new(dir.clone()) as _), &options, DROP, &mut watch);
        let complete = outcome.is_ok();
        assert!(complete || matches!(outcome, Err(Error::Interrupted { .. })), "{outcome:?}");
        repair(&dir, &options, DROP).unwrap();
        assert_eq!(read(&open(&dir, &options).unwrap()).unwrap(), twin);
        if complete {
            assert!(looks > 4);
            break;
        }
    }
}

#[test]
fn a_repair_can_be_cut_anywhere() {
    for codec in Codec::ALL {
        let (base, options, twin) = broken(codec);
        // All of it durable.
        let base = base.power_cut(&mut |n| n - 1);
        let mut cuts = 0;
        for changes in 0.. {
            let dir = base.copy();
            let fuse = Fuse::after(changes, true);
            let faulty: Arc<dyn Directory> = Arc::new(FaultyDirectory::new(dir.clone(), fuse));
            let complete = repair_in(&faulty, &options, DROP, &mut |_| true).is_ok();
            for dir in [dir.power_cut(&mut |_| 0), dir.power_cut(&mut |n| n / 2), dir] {
                let done = repair(&dir, &options, DROP).unwrap();
                assert!(done.dropped.len() <= 1);
                let store = open(&dir, &options).unwrap();
                assert_eq!(read(&store).unwrap(), twin, "{codec:?}, cut at {changes}");
                check_usable(&dir, &options, store, &twin);
            }
            cuts += 1;
            if complete {
                break;
            }
        }
        assert!(cuts > 20, "{cuts}");
    }
}

#[test]
fn a_store_that_others_have_open_is_not_repaired() {
    let (dir, options, _) = sample(Codec::Raw, false);
    let reader = open(&dir, &options).unwrap();
    assert!(verify(&dir, &options).is_sound());
    assert!(matches!(repair(&dir, &options, DROP), Err(Error::Locked { .. })));
    reader.close().unwrap();
    repair(&dir, &options, DROP).unwrap();
}

#[test]
fn records_on_the_same_bytes_are_found_also_where_no_sum_tells() {
    let (dir, options, _) = sample(Codec::Raw, false);
    make_plain(&dir);
    // Record 3 takes the place of record 2: each alone would pass.
    let mut entries = dir.contents()["0.loc"].clone();
    entries.copy_within(32..48, 48);
    overwrite(&dir, "0.loc", &entries);
    let report = verify(&dir, &options);
    assert_eq!(report.damaged.len(), 1, "{report:?}");
    assert!(report.problems[0].to_string().contains("overlaps"), "{report:?}");
}

#[test]
fn a_header_without_slots_is_reported() {
    let (dir, options, _) = sample(Codec::Raw, false);
    overwrite(&dir, "sync.zr", &[0; 1024]);
    let report = verify(&dir, &options);
    assert_eq!(report.problem_count, 1, "{report:?}");
    assert!(report.problems[0].to_string().contains("sync.zr"), "{report:?}");
    repair(&dir, &options, DROP).unwrap();
    assert!(verify(&dir, &options).is_sound());
    let header = &dir.contents()["meta.zr"];
    assert!(Header::decode(&format::take(header, 0)).unwrap().0.has(FLAG_SUMS));
}

#[test]
fn zeros_in_the_header_are_damage_and_no_plain_writer() {
    for (codec, ragged) in kinds() {
        let (dir, options, twin) = sample(codec, ragged);
        let header = dir.contents()["meta.zr"].clone();
        for from in 0..=22 {
            // Zeros that end before the reserved bytes are what a plain writer leaves that deletes everything.
            for to in 23..=32 {
                let dir = dir.copy();
                let mut zeros = header.clone();
                zeros[from..to].fill(0);
                if zeros == header {
                    continue;
                }
                overwrite(&dir, "meta.zr", &zeros);
                match open(&dir, &options) {
                    // What is damaged is told by the slot.
                    Ok(store) => {
                        assert_eq!(read(&store).unwrap(), twin, "{codec:?}, zeros from {from} to {to}")
                    }
                    Err(_) => {
                        assert!(!verify(&dir, &options).is_sound(), "{codec:?}, zeros from {from} to {to}");
                        let done = repair(&dir, &options, Repair::default()).unwrap();
                        assert!(done.header_restored);
                        check_repaired(&dir, &options, &twin, &done);
                    }
                }
            }
        }
    }
}

#[test]
fn a_header_that_is_lost_in_a_compaction_costs_nothing() {
    let (base, options, _) = sample(Codec::Raw, true);
    let store = open(&base, &options).unwrap();
    store.delete(&[0, 3]).unwrap();
    let twin = read(&store).unwrap();
    store.close().unwrap();
    for changes in 0.. {
        let dir = base.copy();
        let faulty: Arc<dyn Directory> =
            Arc::new(FaultyDirectory::new(dir.clone(), Fuse::after(changes, false)));
        let complete = Store::open_in(faulty, options.clone()).and_then(|store| store.compact()).is_ok();
        overwrite(&dir, "meta.zr", b"");
        let done = repair(&dir, &options, DROP).unwrap();
        assert!(done.header_restored && done.dropped.is_empty(), "cut at {changes}: {done:?}");
        check_repaired(&dir, &options, &twin, &done);
        if complete {
            break;
        }
    }
}

#[test]
fn a_damaged_slot_is_reported_and_written_anew() {
    let (dir, options, twin) = sample(Codec::Zstd, false);
    for at in [5, 512 + 5] {
        let dir = dir.copy();
        let mut slots = dir.contents()["sync.zr"].clone();
        slots[at] ^= 1;
        overwrite(&dir, "sync.zr", &slots);
        let report = verify(&dir, &options);
        assert_eq!((report.problem_count, report.sound), (1, twin.0.len() as u64), "{report:?}");
        let done = repair(&dir, &options, Repair::default()).unwrap();
        check_repaired(&dir, &options, &twin, &done);
    }
}

#[test]
fn a_dictionary_whose_checksum_was_lost_is_stated_again() {
    let (dir, options, twin) = sample(Codec::ZstdDict, false);
    dir.remove("sync.zr").unwrap();
    assert!(!verify(&dir, &options).sums_known);
    let done = repair(&dir, &options, Repair::default()).unwrap();
    assert!(done.dictionary_noted);
    check_repaired(&dir, &options, &twin, &done);
    let mut dictionary = dir.contents()["dict.zr"].clone();
    let last = dictionary.len() - 1;
    dictionary[last] ^= 1;
    overwrite(&dir, "dict.zr", &dictionary);
    assert!(matches!(open(&dir, &options), Err(Error::CorruptStore { .. })));
}

#[test]
fn a_tail_that_was_cut_off_behind_all_records_costs_nothing() {
    let (dir, options, _) = sample(Codec::Raw, false);
    let store = open(&dir, &options).unwrap();
    append(&store, &[plain(record(70, 40))]).unwrap();
    store.delete(&[store.len().unwrap() - 1]).unwrap();
    let twin = read(&store).unwrap();
    store.close().unwrap();
    let names = dir.list().unwrap();
    let last = names
        .iter()
        .filter(|name| name.ends_with(".chunk"))
        .max_by_key(|name| name.len() * 100 + usize::from(name.as_bytes()[0]))
        .unwrap();
    let bytes = dir.contents()[last].clone();
    overwrite(&dir, last, &bytes[..bytes.len() - 1]);
    assert!(open(&dir, &options).is_err());
    let done = repair(&dir, &options, Repair::default()).unwrap();
    assert!(done.dropped.is_empty());
    check_repaired(&dir, &options, &twin, &done);
}

#[test]
fn a_forged_length_is_one_problem_and_soon_told() {
    let (dir, options, twin) = sample(Codec::Raw, false);
    let header: [u8; Header::SIZE] = dir.contents()["meta.zr"].as_slice().try_into().unwrap();
    let header = Header::decode(&header).unwrap().0;
    for length in [1 << 40, u64::MAX] {
        let forged = Header { length, generation: header.generation + 1, ..header };
        overwrite(&dir, "meta.zr", &forged.encode());
        let report = verify(&dir, &options);
        assert!(report.problem_count < 5 && report.damaged.is_empty(), "{report:?}");
        assert_eq!(report.sound, twin.0.len() as u64);
        assert!(repair(&dir.copy(), &options, Repair { rebuild_sums: true, drop_damaged: true }).is_err());
    }
}

#[test]
fn a_reader_finds_the_dictionary_that_was_installed_since() {
    let options = small(Codec::ZstdDict);
    let dir = MemoryDirectory::new();
    let writer = Store::create_in(Arc::new(dir.clone()), options.clone()).unwrap();
    let reader = open(&dir, &options).unwrap();
    apply(&(Arc::new(dir.clone()) as _), &options, &mut Some(writer), &Op::InstallDict).unwrap();
    let writer = open(&dir, &options).unwrap();
    append(&writer, &[plain(record(1, 50))]).unwrap();
    assert_eq!(reader.refresh().unwrap(), 1);
    assert_eq!(read(&reader).unwrap().0, [plain(record(1, 50))]);
}
