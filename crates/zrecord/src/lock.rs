//! Who may do what at the same time.
//!
//! - One writer: an exclusive lock on `lock.zr`, held from the first write to the close. The file's text is the holder's process id.
//! - Readers: a shared lock on their own descriptor of `meta.zr`, best effort: without lock support they go on without.
//! - Mending: a writer that settles in what a crash left holds `sync.zr` exclusively meanwhile, taken before the writer lock. Who finds
//!   a store unsettled waits for a shared one, and knows then that a writer, if there is one, is at work rather than mending.
//! - `delete` and `compact`: the writer lock, and the exclusive lock on `meta.zr` for as long as they run, or from `hold` to `release`.
//!
//! Where a file system offers no locks there is no writing, and reading goes on without.
//!
//! All are locks of the operating system on open files: they die with the process, and a forked child shares its parent's.

use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::format::names;
use crate::storage::{Access, Directory, File, Lock, read_small};

/// How long a lock that others hold only for moments is waited for.
const PATIENCE: Duration = Duration::from_millis(500);
const POLL: Duration = Duration::from_millis(2);
/// How long mending is waited for: it reads all that was appended since the last sync.
const MENDING: Duration = Duration::from_secs(120);

/// What is said to have failed where a writer could not get its locks.
pub(crate) const VERB: &str = "lock for writing";

fn patiently(file: &dyn File, lock: Lock, patience: Duration) -> io::Result<bool> {
    let start = Instant::now();
    while !file.try_lock(lock)? {
        if start.elapsed() > patience {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
    Ok(true)
}

/// `meta.zr`, with this handle's lock on it. The descriptor is read-only until the handle becomes the writer: network file systems
/// give the exclusive lock only to one that may write.
#[derive(Debug)]
pub(crate) struct LockedMeta {
    reader: Arc<dyn File>,
    writer: OnceLock<Arc<dyn File>>,
}

impl LockedMeta {
    pub(crate) fn new(reader: Arc<dyn File>) -> Self {
        Self { reader, writer: OnceLock::new() }
    }

    /// Hold the lock on the writer's descriptor from here on. Not for a forked child, whose lock is its parent's too.
    pub(crate) fn move_to(&self, writer: &Arc<dyn File>) {
        if self.writer.get().is_none()
            && matches!(writer.try_lock(Lock::Shared), Ok(true))
            && self.writer.set(writer.clone()).is_ok()
        {
            // Without it the lock still goes with the descriptor.
            let _ = self.reader.unlock();
        }
    }
}

impl Deref for LockedMeta {
    type Target = dyn File;

    fn deref(&self) -> &Self::Target {
        &**self.writer.get().unwrap_or(&self.reader)
    }
}

/// A reader's lock on `meta.zr`; whether there is one.
pub(crate) fn share(path: &Path, meta: &dyn File) -> Result<bool> {
    match patiently(meta, Lock::Shared, PATIENCE) {
        Ok(true) => Ok(true),
        Ok(false) => Err(Error::Locked {
            path: path.to_path_buf(),
            reason: "another handle is deleting from it or compacting it".to_owned(),
        }),
        // A file system without locks: readers do without, and look at the generation instead.
        Err(_) => Ok(false),
    }
}

/// Turn the exclusive lock back into a reader's.
pub(crate) fn relax(path: &Path, meta: &dyn File) -> Result<()> {
    if share(path, meta)? {
        return Ok(());
    }
    // There are locks here, and it still is the exclusive one: it would keep everybody out for as long as this handle lives.
    let _ = meta.unlock();
    share(path, meta).map(drop)
}

/// Turn a reader's lock into the exclusive one that moving records needs. On refusal the shared lock is back.
pub(crate) fn exclude(path: &Path, meta: &dyn File, what: &str) -> Result<()> {
    let refuse = |reason: String| Error::Locked { path: path.to_path_buf(), reason };
    match meta.try_lock(Lock::Exclusive) {
        Ok(true) => Ok(()),
        Ok(false) => {
            share(path, meta)?;
            Err(refuse(format!("{what} needs the store alone, but another handle or process has it open")))
        }
        Err(e) => {
            Err(refuse(format!("{what} needs the store alone, and its file system offers no locks ({e})")))
        }
    }
}

/// Wait until nobody mends the store, and keep it so while the file lives. Without locks, or without `sync.zr`, there is nothing to wait for.
pub(crate) fn quiet(dir: &dyn Directory) -> Result<Option<Arc<dyn File>>> {
    let Ok(slots) = dir.open(names::SYNC, Access::Read) else { return Ok(None) };
    match patiently(&*slots, Lock::Shared, MENDING) {
        Ok(true) => Ok(Some(slots)),
        Ok(false) => Err(mended_elsewhere(dir)),
        Err(_) => Ok(None),
    }
}

/// Be the only one who mends, until `slots` is unlocked.
pub(crate) fn mend(dir: &dyn Directory, slots: &dyn File) -> Result<()> {
    match patiently(slots, Lock::Exclusive, MENDING) {
        Ok(true) => Ok(()),
        Ok(false) => Err(mended_elsewhere(dir)),
        Err(e) => Err(Error::io(VERB, dir.path().join(names::SYNC))(e)),
    }
}

fn mended_elsewhere(dir: &dyn Directory) -> Error {
    let reason = "another process mends what a crash left, and takes long; try again later".to_owned();
    Error::Locked { path: dir.path().to_path_buf(), reason }
}

/// Become the writer.
pub(crate) fn write(dir: &dyn Directory) -> Result<Arc<dyn File>> {
    let path = dir.path().join(names::LOCK);
    let file = dir.open(names::LOCK, Access::Write).map_err(Error::io("open", &path))?;
    if !patiently(&*file, Lock::Exclusive, PATIENCE).map_err(Error::io(VERB, &path))? {
        return Err(Error::Locked { path: dir.path().to_path_buf(), reason: holder(dir) });
    }
    let id = std::process::id().to_string();
    file.set_len(0).and_then(|()| file.write_at(id.as_bytes(), 0)).map_err(Error::io("write", &path))?;
    Ok(file)
}

fn holder(dir: &dyn Directory) -> String {
    let text = read_small(dir, names::LOCK, 64).ok().flatten().unwrap_or_default();
    match String::from_utf8_lossy(&text).trim().parse::<u32>() {
        Ok(id) if id == std::process::id() => {
            format!("another handle of this process (id {id}) writes to it; a store has one writer at a time")
        }
        Ok(id) => format!("process {id} writes to it; a store has one writer at a time"),
        Err(_) => "another process writes to it; a store has one writer at a time".to_owned(),
    }
}

/// Whether a writer is at work, asked without write permission.
pub(crate) fn writer_alive(dir: &dyn Directory) -> bool {
    match dir.open(names::LOCK, Access::Read) {
        Ok(file) => matches!(file.try_lock(Lock::Shared), Ok(false)),
        Err(_) => false,
    }
}
