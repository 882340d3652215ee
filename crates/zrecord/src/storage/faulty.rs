//! A directory that fails on request: the n-th change to it, and every one after (as when the process or the disk is gone); or the
//! n-th call of any kind, and no other one (as when a disk, a network or a quota has a bad moment).

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "for tests and fuzzing only: a panic is a finding"
)]

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::memory::torn_at;
use super::{Access, Directory, File, Lock, Map};

/// Says which calls fail.
#[derive(Debug)]
pub(crate) struct Fuse {
    /// Changes that succeed before all fail.
    left: AtomicU64,
    /// Calls of any kind before the only one that fails.
    calls: AtomicU64,
    /// The error that the only one fails with.
    errno: i32,
    /// The only one, once it has failed: what was tried, and on which file.
    failed: OnceLock<(&'static str, String)>,
    /// Set until the failing write has been torn.
    torn: AtomicBool,
}

impl Fuse {
    /// `changes` succeed; the next one and all later ones fail. With `torn`, the failing write first writes its first
    /// half, up to a sector's end. What changes nothing never fails.
    pub(crate) fn after(changes: u64, torn: bool) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(changes), torn: AtomicBool::new(torn), ..Self::never() })
    }

    /// One call will fail with `errno`, a change or not (never for want of space), once it is said which; all others succeed. `torn` as above.
    #[cfg(test)]
    pub(crate) fn once(errno: i32, torn: bool) -> Arc<Self> {
        Arc::new(Self { errno, torn: AtomicBool::new(torn), ..Self::never() })
    }

    /// `calls` succeed from here on, then one fails.
    #[cfg(test)]
    pub(crate) fn arm(&self, calls: u64) {
        self.calls.store(calls, Ordering::SeqCst);
    }

    /// How many still succeed.
    #[cfg(test)]
    pub(crate) fn calls_left(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn never() -> Self {
        Self {
            left: AtomicU64::new(u64::MAX),
            calls: AtomicU64::new(u64::MAX),
            errno: 0,
            failed: OnceLock::new(),
            torn: AtomicBool::new(false),
        }
    }

    pub(crate) fn blown(&self) -> bool {
        self.left.load(Ordering::SeqCst) == 0
    }

    /// What was tried on which file when the only failing call was made; no name for the directory.
    #[cfg(test)]
    pub(crate) fn failed(&self) -> Option<(&str, &str)> {
        self.failed.get().map(|(verb, name)| (*verb, name.as_str()))
    }

    /// Only the first failing write leaves a part behind: after it the process is gone.
    fn tears_now(&self) -> bool {
        self.torn.swap(false, Ordering::SeqCst)
    }

    /// Before a call that changes something.
    fn change(&self, verb: &'static str, name: &str) -> io::Result<()> {
        self.call(verb, name)?;
        let take = |left: u64| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("injected fault")),
        }
    }

    /// Before a call that changes nothing: it fails for everything but want of space.
    fn look(&self, verb: &'static str, name: &str) -> io::Result<()> {
        if self.errno == rustix::io::Errno::NOSPC.raw_os_error() { Ok(()) } else { self.call(verb, name) }
    }

    fn call(&self, verb: &'static str, name: &str) -> io::Result<()> {
        // Wraps around after the failing one, and isn't back at 0 before the end of the world.
        if self.calls.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Ok(());
        }
        let _ = self.failed.set((verb, name.to_owned()));
        Err(io::Error::from_raw_os_error(self.errno))
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
            self.fuse.change("make", name)?;
        } else {
            self.fuse.look("open", name)?;
        }
        let (inner, fuse) = (self.inner.open(name, access)?, self.fuse.clone());
        Ok(Arc::new(FaultyFile { inner, fuse, name: name.to_owned() }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.fuse.look("list", "")?;
        self.inner.list()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        if self.inner.open(name, Access::Read).is_ok() {
            self.fuse.change("remove", name)?;
        } else {
            self.fuse.look("remove", name)?;
        }
        self.inner.remove(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.fuse.change("rename", from)?;
        self.inner.rename(from, to)
    }

    fn sync(&self) -> io::Result<()> {
        self.fuse.change("sync", "")?;
        self.inner.sync()
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn File>,
    fuse: Arc<Fuse>,
    name: String,
}

impl File for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.fuse.look("length", &self.name)?;
        self.inner.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.fuse.look("read", &self.name)?;
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.fuse.change("write", &self.name) {
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
        self.fuse.change("resize", &self.name)?;
        self.inner.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        self.fuse.change("sync", &self.name)?;
        self.inner.sync()
    }

    fn begin_sync(&self, offset: u64, length: u64) {
        self.inner.begin_sync(offset, length);
    }

    fn map(&self) -> io::Result<Option<Map>> {
        self.fuse.look("map", &self.name)?;
        self.inner.map()
    }

    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        self.fuse.look("lock", &self.name)?;
        self.inner.try_lock(lock)
    }

    fn unlock(&self) -> io::Result<()> {
        self.fuse.look("unlock", &self.name)?;
        self.inner.unlock()
    }
}
