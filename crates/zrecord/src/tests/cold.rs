//! Batches that are not in memory: what is asked for, and when.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::Records;
use crate::codec::Codec;
use crate::options::{Options, Verify};
use crate::storage::memory::MemoryDirectory;
use crate::storage::{Access, Directory, File, Lock, Map};
use crate::store::Store;

/// What the files of a [`Disk`] share.
#[derive(Debug, Default)]
struct Log {
    /// Whether nothing is in memory.
    cold: AtomicBool,
    looks: Mutex<usize>,
    asked: Mutex<BTreeSet<(String, u64, u64)>>,
}

/// A directory whose files say whether they are in memory, and note what they are asked for.
#[derive(Debug)]
struct Disk {
    inner: MemoryDirectory,
    log: Arc<Log>,
}

#[derive(Debug)]
struct DiskFile {
    inner: Arc<dyn File>,
    log: Arc<Log>,
    name: String,
}

impl Directory for Disk {
    fn path(&self) -> &Path {
        self.inner.path()
    }
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let inner = self.inner.open(name, access)?;
        Ok(Arc::new(DiskFile { inner, log: self.log.clone(), name: name.to_owned() }))
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }
    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
}

impl File for DiskFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_at(buffer, offset)
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_at(bytes, offset)
    }
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.inner.set_len(length)
    }
    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }
    fn is_at_hand(&self, _: u64) -> bool {
        *self.log.looks.lock().unwrap() += 1;
        !self.log.cold.load(Ordering::Relaxed)
    }
    fn ask(&self, bytes: Range<u64>) {
        self.log.asked.lock().unwrap().insert((self.name.clone(), bytes.start, bytes.end));
    }
    fn map(&self) -> io::Result<Option<Map>> {
        self.inner.map()
    }
    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        self.inner.try_lock(lock)
    }
    fn unlock(&self) -> io::Result<()> {
        self.inner.unlock()
    }
}

const LENGTH: usize = 100;
const COUNT: u64 = 200;

/// A store of records of a length each, and the log of its disk.
fn store(codec: Codec, verify: Verify, alike: bool) -> (Store, Arc<Log>) {
    let log = Arc::new(Log::default());
    let dir: Arc<dyn Directory> = Arc::new(Disk { inner: MemoryDirectory::new(), log: log.clone() });
    let store = Store::create_in(dir, Options::new().codec(codec).verify(verify)).unwrap();
    let rows: Vec<u8> = (0..COUNT).flat_map(|i| [u8::try_from(i).unwrap(); LENGTH]).collect();
    store.append(&Records::rows(&rows, usize::try_from(COUNT).unwrap()).unwrap(), None).unwrap();
    if !alike {
        store.append(&Records::rows(b"another length", 1).unwrap(), None).unwrap();
    }
    (store, log)
}

fn gather(store: &Store, idxs: &[u64]) {
    let mut found = vec![0; idxs.len() * LENGTH];
    store.gather_rows(idxs, &mut found).unwrap();
    for (row, &record) in found.chunks(LENGTH).zip(idxs) {
        assert_eq!(row, [u8::try_from(record).unwrap(); LENGTH]);
    }
}

fn asked(log: &Log) -> BTreeSet<(String, u64, u64)> {
    std::mem::take(&mut *log.asked.lock().unwrap())
}

#[test]
fn of_a_batch_that_is_not_in_memory_every_record_and_row_is_asked_for() {
    let idxs = [150, 3, 77, 3, 199, 0];
    for verify in [Verify::Always, Verify::Never] {
        for alike in [true, false] {
            let (store, log) = store(Codec::Raw, verify, alike);
            log.cold.store(true, Ordering::Relaxed);
            gather(&store, &idxs);
            let mut expected = BTreeSet::new();
            for i in idxs {
                expected.insert(("0.chunk".to_owned(), i * 100, i * 100 + 100));
                if verify == Verify::Always {
                    expected.insert(("0.sum".to_owned(), i * 4, i * 4 + 4));
                }
                if !alike {
                    expected.insert(("0.loc".to_owned(), i * 16, i * 16 + 16));
                }
            }
            assert_eq!(asked(&log), expected, "{verify:?}, alike: {alike}");
        }
    }
    let (store, log) = store(Codec::Zstd, Verify::Always, true);
    log.cold.store(true, Ordering::Relaxed);
    gather(&store, &idxs);
    let names: Vec<String> = asked(&log).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names.iter().filter(|name| *name == "0.chunk").count(), 5);
}

#[test]
fn what_is_in_memory_is_looked_at_now_and_then_and_not_asked_for() {
    let (store, log) = store(Codec::Raw, Verify::Always, true);
    for _ in 0..80 {
        gather(&store, &[1, 2, 3]);
    }
    assert!(asked(&log).is_empty());
    // Two looks, at bytes and sum, in one of eight batches.
    assert_eq!(*log.looks.lock().unwrap(), 20);
}

#[test]
fn after_a_record_that_was_missing_several_batches_are_asked_for() {
    let (store, log) = store(Codec::Raw, Verify::Always, true);
    log.cold.store(true, Ordering::Relaxed);
    gather(&store, &[9]);
    log.cold.store(false, Ordering::Relaxed);
    let batches = (0..40).filter(|_| {
        asked(&log);
        gather(&store, &[9]);
        !asked(&log).is_empty()
    });
    assert_eq!(batches.count(), 16);
}
