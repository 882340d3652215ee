//! Cuts at every change to the disk, of the process alone and of the machine: what is found afterwards is what the store held before
//! or after the operation that was cut, never anything in between.

use std::sync::Arc;

use super::twin::{
    Op, Row, Twin, apply, check_reads_after_a_fault, check_usable, plain, read, record, shaped, small,
};
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::storage::faulty::{FaultyDirectory, Fuse};
use crate::storage::memory::MemoryDirectory;
use crate::storage::{Access, Directory};
use crate::{Records, Store};

/// Every path that changes a store, with chunks and segments rolling over; ragged from the second append on if wanted.
fn scenario(ragged: bool) -> Vec<Op> {
    let rows = |from: u64, to: u64, ragged: bool| -> Vec<Row> {
        (from..to)
            .map(|i| {
                let length = usize::try_from(i * 7 % 5 * 6).unwrap();
                if ragged && i % 3 > 0 { shaped(record(i, length), 2) } else { plain(record(i, length)) }
            })
            .collect()
    };
    vec![
        Op::InstallDict,
        Op::Append(rows(0, 6, false)),
        Op::Sync,
        Op::Append(rows(6, 14, ragged)),
        Op::Delete(vec![3, 0, 7, 3, 13]),
        Op::Append(rows(14, 17, ragged)),
        Op::Append(rows(17, 19, ragged)),
        Op::Compact,
        Op::Append(rows(19, 22, ragged)),
        Op::Delete(vec![0]),
        Op::Compact,
        Op::Delete((2..15).collect()),
        Op::Reopen,
        Op::Compact,
        Op::Append(rows(22, 24, ragged)),
        Op::Delete((0..24).collect()),
        Op::Append(rows(24, 26, ragged)),
        Op::Compact,
        Op::Sync,
    ]
}

/// How a scenario ended.
enum End {
    Complete,
    /// What the store held at the last durable point, before the cut operation, and after it.
    Cut {
        durable: Twin,
        before: Twin,
        after: Twin,
    },
}

/// Run the scenario on a store in `dir` until the fuse blows.
fn run(dir: &MemoryDirectory, fuse: &Arc<Fuse>, options: &Options, ops: &[Op]) -> End {
    let faulty: Arc<dyn Directory> = Arc::new(FaultyDirectory::new(dir.clone(), fuse.clone()));
    let (mut durable, mut before) = (Twin::default(), Twin::default());
    let mut store = match Store::open_in(faulty.clone(), options.clone()) {
        Ok(store) => Some(store),
        Err(e) => panic!("opening changes nothing, but failed: {e}"),
    };
    for op in ops {
        let after = before.after(op);
        if let Err(e) = apply(&faulty, options, &mut store, op) {
            assert!(fuse.blown(), "{op:?} failed without a fault: {e}");
            check_reads_after_a_fault(store, &before, &after);
            return End::Cut { durable, before, after };
        }
        if !matches!(op, Op::Append(_)) {
            durable = after.clone();
        }
        before = after;
    }
    End::Complete
}

fn fresh(options: &Options) -> MemoryDirectory {
    let dir = MemoryDirectory::new();
    Store::create_in(Arc::new(dir.clone()), options.clone()).unwrap();
    dir.sync().unwrap();
    dir
}

/// Cut at every change; returns how many there were.
fn cut_everywhere(codec: Codec, ragged: bool, torn: bool, check: impl Fn(u64, &MemoryDirectory, End)) -> u64 {
    let (options, ops) = (small(codec), scenario(ragged));
    for changes in 0.. {
        let dir = fresh(&options);
        let fuse = Fuse::after(changes, torn);
        match run(&dir, &fuse, &options, &ops) {
            End::Complete if !fuse.blown() => return changes,
            End::Complete => {}
            cut @ End::Cut { .. } => check(changes, &dir, cut),
        }
    }
    unreachable!()
}

fn open(dir: &MemoryDirectory, options: &Options) -> Store {
    Store::open_in(Arc::new(dir.clone()), options.clone()).unwrap()
}

fn killed(codec: Codec, ragged: bool) {
    for torn in [false, true] {
        let options = small(codec);
        let cuts = cut_everywhere(codec, ragged, torn, |changes, dir, end| {
            let End::Cut { before, after, .. } = end else { return };
            let store = open(dir, &options);
            let content = read(&store).unwrap();
            assert!(
                content == before || content == after,
                "{codec:?}, cut at {changes}, torn: {torn}\n{content:?}"
            );
            check_usable(dir, &options, store, &content);
        });
        assert!(cuts > 200, "the scenario has only {cuts} changes");
    }
}

#[test]
fn a_killed_process_leaves_all_or_nothing_raw() {
    killed(Codec::Raw, false);
    killed(Codec::Raw, true);
}

#[test]
fn a_killed_process_leaves_all_or_nothing_zstd() {
    killed(Codec::Zstd, false);
    killed(Codec::Zstd, true);
}

#[test]
fn a_killed_process_leaves_all_or_nothing_zstd_dict() {
    killed(Codec::ZstdDict, false);
    killed(Codec::ZstdDict, true);
}

/// A cheap source of choices.
fn chooser(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |n| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % n
    }
}

fn power_cut(codec: Codec, ragged: bool, seeds: u64) {
    let options = small(codec);
    cut_everywhere(codec, ragged, true, |changes, dir, end| {
        let End::Cut { durable, before, after } = end else { return };
        for seed in 0..seeds {
            let mut random = chooser(changes << 8 | seed);
            // Seed 0 loses all that was not synced.
            let dir = dir.power_cut(&mut |n| if seed == 0 { 0 } else { random(n) });
            let store = open(&dir, &options);
            let content = read(&store).unwrap();
            let fine = content == after
                || content.is_prefix(&before, &durable)
                || content.is_prefix(&after, &durable);
            assert!(fine, "{codec:?}, cut at {changes}, seed {seed}\n{content:?}\n{before:?}\n{after:?}");
            check_usable(&dir, &options, store, &content);
        }
    });
}

#[test]
fn a_power_cut_takes_nothing_that_was_synced() {
    power_cut(Codec::Raw, true, 6);
    power_cut(Codec::Zstd, false, 2);
    power_cut(Codec::ZstdDict, true, 2);
}

/// Appends of `lengths` behind a durable store, then power is lost: each change since is kept whole or lost, in every combination.
fn lost_in_every_way(codec: Codec, ragged: bool, lengths: &[usize], together: bool) {
    let row = |i: usize, length| {
        let bytes = record(i as u64, length);
        if ragged { shaped(bytes, 3) } else { plain(bytes) }
    };
    let options = small(codec);
    let dir = fresh(&options);
    let shared: Arc<dyn Directory> = Arc::new(dir.clone());
    let mut store = Some(open(&dir, &options));
    // Several chunks, and a segment that is left with room for what follows: a row that is lost there is zeros, not the file's end.
    let durable = Twin((0..5).map(|i| row(i, 60)).collect());
    for op in [Op::Append(durable.0.clone()), Op::Sync] {
        apply(&shared, &options, &mut store, &op).unwrap();
    }
    let new: Vec<Row> = (5..).zip(lengths).map(|(i, &length)| row(i, length)).collect();
    for rows in new.chunks(if together { new.len() } else { 1 }) {
        apply(&shared, &options, &mut store, &Op::Append(rows.to_vec())).unwrap();
    }
    let whole = durable.after(&Op::Append(new));
    // Its content is nobody's matter, and would only double the combinations.
    dir.open("lock.zr", Access::Read).unwrap().sync().unwrap();
    for kept in 0.. {
        let mut change = 0;
        let left = dir.power_cut(&mut |n| {
            change += 1;
            if kept >> (change - 1) & 1 == 1 { n - 1 } else { 0 }
        });
        if kept >> change > 0 {
            // Every combination was there. Where the names of new files are lost, their changes are too, and there are fewer.
            if kept & 1 == 1 {
                return;
            }
            continue;
        }
        let store = open(&left, &options);
        let content = read(&store).unwrap();
        let case = format!("{codec:?}, {lengths:?}, kept {kept:b}");
        assert!(content.is_prefix(&whole, &durable), "{case}\n{content:?}");
        check_usable(&left, &options, store, &content);
    }
}

#[test]
fn whichever_changes_a_power_cut_takes_only_the_last_records_go() {
    for lengths in [&[0, 9][..], &[9, 0], &[0, 0]] {
        lost_in_every_way(Codec::Raw, false, lengths, false);
        lost_in_every_way(Codec::Raw, true, lengths, true);
    }
    lost_in_every_way(Codec::Zstd, false, &[0, 9], false);
}

/// Cut `second`, on what the first cut left, at every `stride`-th change; a power cut after either or both.
fn cut_twice(codec: Codec, stride: usize, second: impl Fn(&Store) -> Result<()>) {
    let options = small(codec);
    cut_everywhere(codec, true, true, |first, dir, end| {
        let End::Cut { durable, before, after } = end else { return };
        for (power_lost_first, power_lost_then) in [(true, false), (false, true), (true, true)] {
            // The second cut starts elsewhere for each first one: together they meet in all ways.
            for changes in (first % stride as u64..).step_by(stride) {
                let mut random = chooser(first << 16 | changes << 2 | u64::from(power_lost_first));
                let left = if power_lost_first { dir.power_cut(&mut random) } else { dir.copy() };
                let fuse = Fuse::after(changes, true);
                let faulty = Arc::new(FaultyDirectory::new(left.clone(), fuse));
                let complete =
                    Store::open_in(faulty, options.clone()).and_then(|store| second(&store)).is_ok();
                let left = if power_lost_then { left.power_cut(&mut random) } else { left };
                let store = open(&left, &options);
                let found = read(&store).unwrap();
                let mut content = found.clone();
                content.0.retain(|(bytes, _)| bytes != b"new");
                let fine = content == after
                    || content.is_prefix(&before, &durable)
                    || content.is_prefix(&after, &durable);
                assert!(fine, "cut at {first}, then at {changes}\n{content:?}\n{before:?}\n{after:?}");
                check_usable(&left, &options, store, &found);
                if complete {
                    break;
                }
            }
        }
    });
}

#[test]
fn recovery_can_be_cut_too() {
    // The first write makes a writer, which mends whatever is left.
    cut_twice(Codec::Raw, 3, |store| store.append(&Records::list(vec![b"new"]), None).map(drop));
}

#[test]
fn a_compaction_after_a_cut_can_be_cut_too() {
    cut_twice(Codec::Raw, 10, Store::compact);
}

#[test]
fn entries_of_a_killed_compaction_are_durable_before_the_next_one_relies_on_them() {
    let options = small(Codec::Raw).chunk_limit(10_000);
    let base = fresh(&options);
    let mut rows = vec![plain(record(0, 60))];
    rows.extend((1..9).map(|i| plain(record(i, 30))));
    let store = open(&base, &options);
    apply(&(Arc::new(base.clone()) as _), &options, &mut Some(store), &Op::Append(rows.clone())).unwrap();
    open(&base, &options).delete(&[0]).unwrap();
    let expected = Twin(rows).after(&Op::Delete(vec![0]));
    let compact = |dir: &MemoryDirectory, changes| {
        let faulty = Arc::new(FaultyDirectory::new(dir.clone(), Fuse::after(changes, false)));
        Store::open_in(faulty, options.clone()).and_then(|store| store.compact()).is_ok()
    };
    for killed in 0.. {
        let left = base.copy();
        if compact(&left, killed) {
            break;
        }
        for changes in (killed % 2..).step_by(2) {
            let again = left.copy();
            let complete = compact(&again, changes);
            let after = again.power_cut(&mut |_| 0);
            assert_eq!(
                read(&open(&after, &options)).unwrap(),
                expected,
                "killed at {killed}, cut at {changes}"
            );
            if complete {
                break;
            }
        }
    }
}

#[test]
fn a_cut_creation_is_no_store_or_an_empty_one() {
    for codec in Codec::ALL {
        let options = small(codec).schema(b"schema".to_vec());
        for changes in 0.. {
            let dir = MemoryDirectory::new();
            let fuse = Fuse::after(changes, true);
            let faulty: Arc<dyn Directory> = Arc::new(FaultyDirectory::new(dir.clone(), fuse.clone()));
            let complete = Store::create_in(faulty, options.clone()).is_ok();
            for lost in [false, true] {
                let dir = dir.power_cut(&mut |n| if lost { 0 } else { n - 1 });
                let store = Store::open_in(Arc::new(dir.clone()), options.clone()).or_else(|e| {
                    assert!(!complete && matches!(e, Error::NotAStore { .. }), "{e}");
                    Store::create_in(Arc::new(dir.clone()), options.clone())
                });
                check_usable(&dir, &options, store.unwrap(), &Twin::default());
                assert_eq!(dir.contents()["schema.msgpack"], b"schema");
            }
            if complete {
                break;
            }
        }
    }
}
