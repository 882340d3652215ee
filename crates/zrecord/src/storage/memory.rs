//! A directory in memory, for tests: a twin of the real one that offers positional reads only.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{Access, Directory, File, Lock, Map};

type Content = Arc<Mutex<Vec<u8>>>;
/// Exclusive holders are -1, shared holders count up.
type LockState = Arc<Mutex<i64>>;

/// The files of a directory; clones show the same files.
#[derive(Clone, Debug)]
pub(crate) struct MemoryDirectory {
    path: PathBuf,
    files: Arc<Mutex<BTreeMap<String, (Content, LockState)>>>,
}

impl MemoryDirectory {
    pub(crate) fn new() -> Self {
        Self { path: PathBuf::from("memory"), files: Arc::default() }
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Directory for MemoryDirectory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let mut files = self.files.lock().unwrap();
        if access == Access::Write {
            files.entry(name.to_owned()).or_default();
        }
        let (content, locks) = files.get(name).cloned().ok_or_else(missing)?;
        Ok(Arc::new(MemoryFile { content, locks, held: Mutex::new(None) }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.files.lock().unwrap().keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.files.lock().unwrap().remove(name).map(drop).ok_or_else(missing)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        let file = files.remove(from).ok_or_else(missing)?;
        files.insert(to.to_owned(), file);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryFile {
    content: Content,
    locks: LockState,
    held: Mutex<Option<Lock>>,
}

impl MemoryFile {
    fn release(&self, held: &mut Option<Lock>) {
        let mut locks = self.locks.lock().unwrap();
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
        Ok(self.content.lock().unwrap().len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let content = self.content.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        let found = content.get(at..at + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut content = self.content.lock().unwrap();
        let at = usize::try_from(offset).unwrap();
        if content.len() < at + bytes.len() {
            content.resize(at + bytes.len(), 0);
        }
        content[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.content.lock().unwrap().resize(usize::try_from(length).unwrap(), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn map(&self) -> io::Result<Option<Map>> {
        Ok(None)
    }

    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        let mut held = self.held.lock().unwrap();
        self.release(&mut held);
        let mut locks = self.locks.lock().unwrap();
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
}
