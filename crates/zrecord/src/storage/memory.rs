//! A directory in memory, for tests: a twin of the real one that offers positional reads only, and that knows what a power
//! cut can take: everything that was not synced, file by file and name by name.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "for tests and fuzzing only: a panic is a finding"
)]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{Access, Directory, File, Lock, Map};

/// What a write is torn at. Real sectors are larger; a header, an entry and a shape lie within one of these too.
pub(crate) const SECTOR: usize = 32;

/// The longest file.
const LIMIT: u64 = 16 << 20;

type Names = BTreeMap<String, Arc<Node>>;

/// The files of a directory; clones show the same files.
#[derive(Clone, Debug)]
pub(crate) struct MemoryDirectory {
    path: PathBuf,
    names: Arc<Mutex<NameTable>>,
}

#[derive(Debug, Default)]
struct NameTable {
    now: Names,
    durable: Names,
    /// The names after each change since the last sync.
    unsynced: Vec<Names>,
}

#[derive(Debug, Default)]
struct Node {
    content: Mutex<Content>,
    /// Exclusive holders are -1, shared holders count up.
    locks: Mutex<i64>,
}

#[derive(Clone, Debug, Default)]
struct Content {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Changes since the last sync.
    unsynced: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Resize(usize),
}

impl MemoryDirectory {
    pub(crate) fn new() -> Self {
        Self { path: PathBuf::from("memory"), names: Arc::default() }
    }

    /// The directory after a power cut. `choose(n)` picks one of `0..n`, and each 0 means that more is lost: each unsynced change of
    /// a file is lost, kept, or (a write) kept up to some sector; of the changes of names, a part from the last sync on is kept.
    pub(crate) fn power_cut(&self, choose: &mut dyn FnMut(usize) -> usize) -> Self {
        let names = self.names.lock().unwrap();
        let kept =
            choose(names.unsynced.len() + 1).checked_sub(1).map_or(&names.durable, |i| &names.unsynced[i]);
        let after: Names =
            kept.iter().map(|(name, node)| (name.clone(), node.after_power_cut(choose))).collect();
        let table = NameTable { now: after.clone(), durable: after, unsynced: Vec::new() };
        Self { path: self.path.clone(), names: Arc::new(Mutex::new(table)) }
    }

    /// A copy that goes its own way, with the same changes unsynced and no lock held: what a killed process leaves.
    pub(crate) fn copy(&self) -> Self {
        let names = self.names.lock().unwrap();
        let mut nodes: BTreeMap<*const Node, Arc<Node>> = BTreeMap::new();
        let mut copy = |names: &Names| -> Names {
            let mut of =
                |node| nodes.entry(Arc::as_ptr(node)).or_insert_with(|| Arc::new(node.copy())).clone();
            names.iter().map(|(name, node)| (name.clone(), of(node))).collect()
        };
        let table = NameTable {
            now: copy(&names.now),
            durable: copy(&names.durable),
            unsynced: names.unsynced.iter().map(copy).collect(),
        };
        Self { path: self.path.clone(), names: Arc::new(Mutex::new(table)) }
    }

    /// A directory of these files, all of them durable.
    pub(crate) fn holding(files: &BTreeMap<String, Vec<u8>>) -> Self {
        let node = |bytes: &Vec<u8>| {
            let content = Content { now: bytes.clone(), durable: bytes.clone(), unsynced: Vec::new() };
            Arc::new(Node { content: Mutex::new(content), locks: Mutex::default() })
        };
        let names: Names = files.iter().map(|(name, bytes)| (name.clone(), node(bytes))).collect();
        let table = NameTable { now: names.clone(), durable: names, unsynced: Vec::new() };
        Self { path: PathBuf::from("memory"), names: Arc::new(Mutex::new(table)) }
    }

    /// Every file's bytes.
    pub(crate) fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let names = self.names.lock().unwrap();
        names
            .now
            .iter()
            .map(|(name, node)| (name.clone(), node.content.lock().unwrap().now.clone()))
            .collect()
    }
}

impl Node {
    fn copy(&self) -> Self {
        Self { content: Mutex::new(self.content.lock().unwrap().clone()), locks: Mutex::default() }
    }

    fn after_power_cut(&self, choose: &mut dyn FnMut(usize) -> usize) -> Arc<Self> {
        let content = self.content.lock().unwrap();
        let mut bytes = content.durable.clone();
        for change in &content.unsynced {
            match (choose(3), change) {
                (0, _) => {}
                (1, Change::Write { at, bytes: written }) => {
                    let sectors = choose(written.len() / SECTOR + 1);
                    let torn = torn_at(*at, sectors * SECTOR, written.len());
                    Change::Write { at: *at, bytes: written[..torn].to_vec() }.apply(&mut bytes);
                }
                (_, change) => change.apply(&mut bytes),
            }
        }
        let content = Content { now: bytes.clone(), durable: bytes, unsynced: Vec::new() };
        Arc::new(Self { content: Mutex::new(content), locks: Mutex::default() })
    }
}

/// How much of a write of `length` bytes at `offset` is left if it is torn at the last sector's end before `middle` of it.
pub(crate) fn torn_at(offset: usize, middle: usize, length: usize) -> usize {
    ((offset + middle) / SECTOR * SECTOR).saturating_sub(offset).min(length)
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { at, bytes } => {
                if content.len() < at + bytes.len() && !bytes.is_empty() {
                    content.resize(at + bytes.len(), 0);
                }
                content.iter_mut().skip(*at).zip(bytes).for_each(|(to, from)| *to = *from);
            }
            Self::Resize(length) => content.resize(*length, 0),
        }
    }
}

impl NameTable {
    fn changed(&mut self) {
        self.unsynced.push(self.now.clone());
    }
}

/// `offset`, if that many bytes behind it are within what a file here may have: there are no holes, so each byte takes memory.
fn within_limit(offset: u64, length: usize) -> io::Result<usize> {
    let end = offset.checked_add(length as u64).filter(|&end| end <= LIMIT);
    let offset = end.and_then(|_| usize::try_from(offset).ok());
    offset.ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Directory for MemoryDirectory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let mut names = self.names.lock().unwrap();
        if access == Access::Write && !names.now.contains_key(name) {
            names.now.insert(name.to_owned(), Arc::default());
            names.changed();
        }
        let node = names.now.get(name).cloned().ok_or_else(missing)?;
        Ok(Arc::new(MemoryFile { node, held: Mutex::new(None) }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names.lock().unwrap().now.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut names = self.names.lock().unwrap();
        names.now.remove(name).ok_or_else(missing)?;
        names.changed();
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut names = self.names.lock().unwrap();
        let node = names.now.remove(from).ok_or_else(missing)?;
        names.now.insert(to.to_owned(), node);
        names.changed();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut names = self.names.lock().unwrap();
        names.durable = names.now.clone();
        names.unsynced.clear();
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryFile {
    node: Arc<Node>,
    held: Mutex<Option<Lock>>,
}

impl MemoryFile {
    fn change(&self, change: Change) {
        let mut content = self.node.content.lock().unwrap();
        change.apply(&mut content.now);
        content.unsynced.push(change);
    }

    fn release(&self, held: &mut Option<Lock>) {
        let mut locks = self.node.locks.lock().unwrap();
        match held.take() {
            Some(Lock::Exclusive) => *locks = 0,
            Some(Lock::Shared) => *locks -= 1,
            None => {}
        }
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        let mut held = self.held.lock().unwrap();
        self.release(&mut held);
    }
}

impl File for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.node.content.lock().unwrap().now.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let content = self.node.content.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        let found = at.checked_add(buffer.len()).and_then(|end| content.now.get(at..end));
        let found = found.ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let at = within_limit(offset, bytes.len())?;
        self.change(Change::Write { at, bytes: bytes.to_vec() });
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.change(Change::Resize(within_limit(length, 0)?));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut content = self.node.content.lock().unwrap();
        content.durable = content.now.clone();
        content.unsynced.clear();
        Ok(())
    }

    fn map(&self) -> io::Result<Option<Map>> {
        Ok(None)
    }

    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        let mut held = self.held.lock().unwrap();
        self.release(&mut held);
        let mut locks = self.node.locks.lock().unwrap();
        let granted = match lock {
            Lock::Shared => *locks >= 0,
            Lock::Exclusive => *locks == 0,
        };
        if granted {
            *locks += if lock == Lock::Shared { 1 } else { -1 };
            *held = Some(lock);
        }
        Ok(granted)
    }

    fn unlock(&self) -> io::Result<()> {
        self.release(&mut self.held.lock().unwrap());
        Ok(())
    }
}
