//! A directory that fails on request: the n-th change to it, and every one after (as when the process or the disk is gone).

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "for tests and fuzzing only: a panic is a finding"
)]

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::memory::torn_at;
use super::{Access, Directory, File, Lock, Map};

/// Counts changes down to the failing one.
#[derive(Debug)]
pub(crate) struct Fuse {
    left: AtomicU64,
    /// Set until the failing write has been torn.
    torn: AtomicBool,
}

impl Fuse {
    /// `changes` succeed; the next one and all later ones fail. With `torn`, the failing write first writes its first
    /// half, up to a sector's end.
    pub(crate) fn after(changes: u64, torn: bool) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(changes), torn: AtomicBool::new(torn) })
    }

    pub(crate) fn blown(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    /// Only the first failing write leaves a part behind: after it the process is gone.
    fn tears_now(&self) -> bool {
        self.torn.swap(false, Ordering::SeqCst)
    }

    fn burn(&self) -> io::Result<()> {
        let take = |left: u64| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("injected fault")),
        }
    }
}

/// A wrapper around any directory.
#[derive(Debug)]
pub(crate) struct FaultyDirectory<D> {
    inner: D,
    fuse: Arc<Fuse>,
}

impl<D> FaultyDirectory<D> {
    pub(crate) fn new(inner: D, fuse: Arc<Fuse>) -> Self {
        Self { inner, fuse }
    }
}

impl<D: Directory> Directory for FaultyDirectory<D> {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let existed = self.inner.open(name, Access::Read).is_ok();
        if access == Access::Write && !existed {
            self.fuse.burn()?;
        }
        Ok(Arc::new(FaultyFile { inner: self.inner.open(name, access)?, fuse: self.fuse.clone() }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if self.inner.open(name, Access::Read).is_ok() {
            self.fuse.burn()?;
        }
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.fuse.burn()?;
        self.inner.rename(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.fuse.burn()?;
        self.inner.sync()
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn File>,
    fuse: Arc<Fuse>,
}

impl File for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.fuse.burn() {
            Ok(()) => self.inner.write_at(bytes, offset),
            Err(e) => {
                if self.fuse.tears_now() {
                    let torn =
                        torn_at(usize::try_from(offset).unwrap(), bytes.len().div_ceil(2), bytes.len());
                    self.inner.write_at(&bytes[..torn], offset)?;
                }
                Err(e)
            }
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.fuse.burn()?;
        self.inner.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.fuse.burn()?;
        self.inner.sync()
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
