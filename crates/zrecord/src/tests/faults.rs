//! One call to the disk fails, whichever it is, and all others succeed: what was asked for is refused with an error that names the file,
//! or done all the same; a writer that failed says so ever after; readers go on; and what is found afterwards is what was there before
//! or after.

use std::sync::Arc;

use super::repair::{DROP, broken, lost_header, repair, verify};
use super::twin::{Op, Row, Twin, append, apply, check_usable, plain, read, record, shaped, small};
use crate::Store;
use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::repair::{Repair, repair_in};
use crate::storage::Directory;
use crate::storage::faulty::{FaultyDirectory, Fuse};
use crate::storage::memory::MemoryDirectory;
use crate::verify::verify_in;

const EIO: i32 = libc::EIO;
const ENOSPC: i32 = libc::ENOSPC;

/// Every path that changes a store, with chunks and segments rolling over.
fn scenario(ragged: bool) -> Vec<Op> {
    let rows = |range: std::ops::Range<u64>| -> Vec<Row> {
        let row = |i: u64| {
            let bytes = record(i, usize::try_from(i * 7 % 5 * 6).unwrap());
            if ragged && i > 5 && !i.is_multiple_of(3) { shaped(bytes, 2) } else { plain(bytes) }
        };
        range.map(row).collect()
    };
    vec![
        Op::InstallDict,
        Op::Append(rows(0..6)),
        Op::Sync,
        Op::Append(rows(6..13)),
        Op::Delete(vec![3, 0, 7]),
        Op::Compact,
        Op::Append(rows(13..15)),
        Op::Reopen,
        Op::Delete(vec![2, 9]),
        Op::Reopen,
        Op::Compact,
    ]
}

/// A store at work while one call fails.
struct Scene {
    dir: MemoryDirectory,
    fuse: Arc<Fuse>,
    faulty: Arc<dyn Directory>,
    options: Options,
    /// What the store holds.
    content: Twin,
}

impl Scene {
    fn new(dir: MemoryDirectory, options: &Options, content: Twin, errno: i32) -> Self {
        let fuse = Fuse::once(errno, errno == ENOSPC);
        let faulty = Arc::new(FaultyDirectory::new(dir.clone(), fuse.clone()));
        Self { dir, fuse, faulty, options: options.clone(), content }
    }

    fn case(&self) -> String {
        format!("{:?}: {:?}", self.options.codec, self.fuse)
    }

    /// The error says which file it was, and what the system said.
    fn check_error(&self, e: &Error) {
        let Some((verb, name)) = self.fuse.failed() else {
            panic!("{}: failed without a fault: {e}", self.case())
        };
        let (text, case) = (e.to_string(), self.case());
        // A lock that can't be had is as good as none, and what can't be mended without one waits.
        if verb == "lock" && matches!(e, Error::Unfinished { .. }) {
            return;
        }
        // A lock that can't be given back is held until its descriptor goes.
        if verb == "unlock" && matches!(e, Error::Locked { .. }) {
            return;
        }
        let file = if matches!(e, Error::Locked { .. }) { "" } else { name.trim_end_matches(".tmp") };
        assert!(text.contains(format!("memory/{file}").trim_end_matches('/')), "{case}: {text}");
        assert!(text.contains("os error"), "{case}: {text}");
    }

    /// What only reads may fail, and works the second time.
    fn twice<T>(&self, work: impl Fn() -> Result<T>) -> T {
        work()
            .or_else(|e| {
                self.check_error(&e);
                work()
            })
            .unwrap_or_else(|e| panic!("{}: {e}", self.case()))
    }

    fn open(&self) -> Store {
        self.twice(|| Store::open_in(self.faulty.clone(), self.options.clone()))
    }

    /// All ways of reading, through this handle and through another one.
    fn look(&self, store: &Store) {
        let case = self.case();
        assert_eq!(self.twice(|| read(store)), self.content, "{case}");
        assert_eq!(self.twice(|| store.stats()).records, self.content.0.len() as u64, "{case}");
        let reader = Options { read_only: true, ..self.options.clone() };
        let other = self.twice(|| Store::open_in(self.faulty.clone(), reader.clone()));
        assert_eq!(self.twice(|| read(&other)), self.content, "{case}");
        assert_eq!(self.twice(|| other.refresh()), self.content.0.len() as u64, "{case}");
        other.close().unwrap();
    }

    /// What any handle finds that isn't the one whose write failed.
    fn check_left(&self, dir: &MemoryDirectory, after: &Twin) {
        let store = Store::open_in(Arc::new(dir.clone()), self.options.clone()).unwrap();
        let content = read(&store).unwrap();
        assert!(content == self.content || content == *after, "{}: {content:?}", self.case());
        check_usable(dir, &self.options, store, &content);
    }

    /// A write failed. `false` if its handle is dead, and all of that is right; else it was done the second time.
    fn recover(&self, store: &mut Option<Store>, op: &Op, e: &Error, after: &Twin) -> bool {
        self.check_error(e);
        let case = format!("{}: {op:?}: {e}", self.case());
        let Some(failed) = store else {
            *store = Some(Store::open_in(self.faulty.clone(), self.options.clone()).expect(&case));
            return true;
        };
        let is_one =
            |content: Twin| assert!(content == self.content || content == *after, "{case}: {content:?}");
        match read(failed) {
            Ok(content) => is_one(content),
            Err(e) => assert!(matches!(e, Error::Closed { .. }), "{case}, then {e}"),
        }
        let dead = failed.is_closed() || failed.has_written() && matches!(e, Error::Io { .. });
        if self.fuse.failed().is_some_and(|(verb, _)| verb == "unlock") && matches!(e, Error::Locked { .. }) {
            drop(store.take());
            self.check_left(&self.dir, after);
            return false;
        }
        if !dead {
            apply(&self.faulty, &self.options, store, op).unwrap_or_else(|e| panic!("{case}, then {e}"));
            return true;
        }
        // Not only the first time.
        for _ in 0..2 {
            let refused =
                [append(failed, &[plain(vec![1])]), failed.sync(), failed.compact(), failed.delete(&[0])];
            for refused in refused {
                let refused = refused.unwrap_err();
                let says =
                    matches!(refused, Error::Poisoned { .. }) && refused.to_string().contains(&e.to_string());
                // An append without a dictionary is refused before anybody asks for the writer.
                let other = matches!(refused, Error::Closed { .. } | Error::MissingDictionary { .. });
                assert!(says || other, "{case}, then {refused}");
            }
        }
        let reader = Options { read_only: true, ..self.options.clone() };
        match Store::open_in(Arc::new(self.dir.clone()), reader) {
            Ok(other) => is_one(read(&other).unwrap()),
            Err(e) => assert!(matches!(e, Error::Unfinished { .. }), "{case}, then {e}"),
        }
        let killed = self.dir.copy();
        self.check_left(&killed, after);
        drop(store.take());
        self.check_left(&self.dir, after);
        false
    }
}

/// One call fails from the opening to the operation and what is read after it, or only after its handle has become the writer.
/// `false` if there are not so many.
fn fails(scene: &mut Scene, op: &Op, next: Option<&Op>, call: u64, is_writer: bool) -> bool {
    let mut store = if is_writer {
        let store = scene.open();
        store.begin_write().unwrap();
        scene.fuse.arm(call);
        Some(store)
    } else {
        scene.fuse.arm(call);
        Some(scene.open())
    };
    // Where nobody was told of the failure, or a second time worked, what follows must work too.
    for op in [Some(op), next].into_iter().flatten() {
        let after = scene.content.after(op);
        if let Err(e) = apply(&scene.faulty, &scene.options, &mut store, op)
            && !scene.recover(&mut store, op, &e, &after)
        {
            return true;
        }
        scene.content = after;
        scene.look(store.as_ref().unwrap());
        if scene.fuse.failed().is_none() {
            return false;
        }
    }
    drop(store);
    scene.check_left(&scene.dir, &scene.content);
    true
}

/// Each call in turn; returns how many there were.
fn each(mut fails: impl FnMut(u64) -> bool) -> u64 {
    (0..).find(|&call| !fails(call)).unwrap()
}

fn each_call_of_the_scenario(codec: Codec) {
    let mut calls = 0;
    for ragged in [false, true] {
        let (options, ops) = (small(codec), scenario(ragged));
        let base = MemoryDirectory::new();
        let door: Arc<dyn Directory> = Arc::new(base.clone());
        drop(Store::create_in(door.clone(), options.clone()).unwrap());
        let mut content = Twin::default();
        for (i, op) in ops.iter().enumerate() {
            for (is_writer, errno) in [(false, EIO), (true, EIO), (true, ENOSPC)] {
                calls += each(|call| {
                    let mut scene = Scene::new(base.copy(), &options, content.clone(), errno);
                    fails(&mut scene, op, ops.get(i + 1), call, is_writer)
                });
            }
            let mut store = Some(Store::open_in(door.clone(), options.clone()).unwrap());
            apply(&door, &options, &mut store, op).unwrap();
            content = content.after(op);
        }
    }
    println!("{codec:?}: {calls} calls failed");
    assert!(calls > 4000, "the scenario has only {calls} calls");
}

#[test]
fn a_call_that_fails_leaves_all_or_nothing_raw() {
    each_call_of_the_scenario(Codec::Raw);
}

#[test]
fn a_call_that_fails_leaves_all_or_nothing_zstd() {
    each_call_of_the_scenario(Codec::Zstd);
}

#[test]
fn a_call_that_fails_leaves_all_or_nothing_zstd_dict() {
    each_call_of_the_scenario(Codec::ZstdDict);
}

#[test]
fn a_call_that_fails_while_a_crash_is_mended_costs_nothing() {
    let options = small(Codec::Raw);
    let base = MemoryDirectory::new();
    let door: Arc<dyn Directory> = Arc::new(base.clone());
    let mut store = Some(Store::create_in(door.clone(), options.clone()).unwrap());
    let row = |i| shaped(record(i, 30), 3);
    let mut content = Twin::default();
    for op in [Op::Append((0..9).map(row).collect()), Op::Delete(vec![1, 4]), Op::Reopen] {
        apply(&door, &options, &mut store, &op).unwrap();
        content = content.after(&op);
    }
    drop(store);
    let (mut calls, mut states) = (0, 0);
    for changes in (0..).step_by(3) {
        let left = base.copy();
        let fuse = Fuse::after(changes, true);
        let faulty: Arc<dyn Directory> = Arc::new(FaultyDirectory::new(left.clone(), fuse.clone()));
        let (mut before, mut after) = (content.clone(), content.clone());
        let mut store = Some(Store::open_in(faulty.clone(), options.clone()).unwrap());
        let ops = [Op::Append(vec![row(20), row(21)]), Op::Delete(vec![0, 3]), Op::Compact];
        for op in &ops {
            before = after;
            after = before.after(op);
            if apply(&faulty, &options, &mut store, op).is_err() {
                break;
            }
        }
        states += 1;
        let left = left.copy();
        calls += each(|call| {
            let scene = Scene::new(left.copy(), &options, before.clone(), EIO);
            scene.fuse.arm(call);
            let store = scene.open();
            let found = scene.twice(|| read(&store));
            assert!(found == before || found == after, "cut at {changes}, {}: {found:?}", scene.case());
            // Mends what opening left, if a lock could not be had then.
            scene.twice(|| store.begin_write());
            assert_eq!(scene.twice(|| read(&store)), found, "cut at {changes}, {}", scene.case());
            drop(store);
            let failed = scene.fuse.failed().is_some();
            let store = Store::open_in(Arc::new(scene.dir.clone()), options.clone()).unwrap();
            assert_eq!(read(&store).unwrap(), found, "cut at {changes}, {}", scene.case());
            check_usable(&scene.dir, &options, store, &found);
            failed
        });
        if !fuse.blown() {
            break;
        }
    }
    println!("{calls} calls failed, in {states} states");
    assert!(calls > 1000 && states > 20, "{calls}, {states}");
}

#[test]
fn a_verify_with_a_call_that_fails_says_nothing_wrong() {
    let mut calls = 0;
    for codec in Codec::ALL {
        let (base, options, _) = broken(codec);
        let truth = verify(&base, &options);
        assert_eq!(truth.damaged.len(), 1);
        calls += each(|call| {
            let scene = Scene::new(base.copy(), &options, Twin::default(), EIO);
            scene.fuse.arm(call);
            let before = scene.dir.contents();
            match verify_in(&scene.faulty, &options, &mut |_| true) {
                Ok(report) => {
                    let case = format!("{}\n{report:?}", scene.case());
                    assert!(!report.is_sound(), "{case}");
                    let damaged =
                        |report: &crate::Report| (report.records, report.sound, report.damaged.clone());
                    assert_eq!(damaged(&report), damaged(&truth), "{case}");
                }
                Err(e) => scene.check_error(&e),
            }
            assert_eq!(scene.dir.contents(), before);
            scene.fuse.failed().is_some()
        });
    }
    println!("{calls} calls failed");
    assert!(calls > 100, "{calls}");
}

/// Repair with each call failing, then again.
fn repaired(base: &MemoryDirectory, options: &Options, how: Repair, twin: &Twin) -> u64 {
    each(|call| {
        let scene = Scene::new(base.copy(), options, Twin::default(), EIO);
        scene.fuse.arm(call);
        if let Err(e) = repair_in(&scene.faulty, options, how, &mut |_| true) {
            scene.check_error(&e);
        }
        let failed = scene.fuse.failed().is_some();
        let done = repair(&scene.dir, options, how).unwrap();
        let store = Store::open_in(Arc::new(scene.dir.clone()), options.clone()).unwrap();
        assert_eq!(read(&store).unwrap(), *twin, "{}: {done:?}", scene.case());
        check_usable(&scene.dir, options, store, twin);
        failed
    })
}

#[test]
fn a_repair_with_a_call_that_fails_can_be_run_again() {
    let mut calls = 0;
    for codec in Codec::ALL {
        let (base, options, twin) = broken(codec);
        calls += repaired(&base, &options, DROP, &twin);
        let (base, options, twin) = lost_header(codec);
        calls += repaired(&base, &options, DROP, &twin);
    }
    println!("{calls} calls failed");
    assert!(calls > 500, "{calls}");
}
