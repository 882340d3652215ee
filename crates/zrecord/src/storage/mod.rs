//! The only door to the disk: a directory of positionally read and written files, behind two traits so that
//! failures can be played by a wrapper.

mod column;
mod entered;
#[cfg(any(test, fuzzing))]
pub(crate) mod faulty;
mod file;
mod local;
mod mapped;
#[cfg(any(test, fuzzing))]
pub(crate) mod memory;
mod numbered;
mod resident;
mod writeback;

use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

pub(crate) use column::{Column, ColumnView, ColumnWriter};
pub(crate) use entered::Entered;
pub(crate) use file::RealDirectory;
pub(crate) use local::is_local;
pub(crate) use mapped::{Map, Mapped};
pub(crate) use numbered::{NumberedFiles, NumberedWriter};
pub(crate) use resident::resident;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// An existing file, to be read.
    Read,
    /// A file to be read and written, made if it is missing.
    Write,
}

/// A lock on an open file; it dies with the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    Shared,
    Exclusive,
}

/// A store's directory. Names are plain file names.
pub(crate) trait Directory: Debug + Send + Sync {
    fn path(&self) -> &Path;
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>>;
    fn list(&self) -> io::Result<Vec<String>>;
    fn remove(&self, name: &str) -> io::Result<()>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Make names durable: created, renamed and removed files.
    fn sync(&self) -> io::Result<()>;
}

/// An open file. All access is positional, so threads and forked children never share a cursor.
pub(crate) trait File: Debug + Send + Sync {
    fn len(&self) -> io::Result<u64>;
    /// Fill `buffer`; `UnexpectedEof` if the file ends before.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Make content and length durable.
    fn sync(&self) -> io::Result<()>;
    /// Whether the byte at `offset` is in memory; `true` where that can't be told.
    fn is_at_hand(&self, offset: u64) -> bool {
        let _ = offset;
        true
    }
    /// Let the system read what is not in memory, without waiting for it: a hint.
    fn ask(&self, bytes: Range<u64>) {
        let _ = bytes;
    }
    /// Begin with the part of the next `sync` that concerns these bytes, where that can be done without waiting for it.
    fn begin_sync(&self, _offset: u64, _length: u64) {}
    /// The file's present content as memory; `None` where only positional reads are offered.
    fn map(&self) -> io::Result<Option<Map>>;
    /// `false` if somebody else holds a lock in the way.
    fn try_lock(&self, lock: Lock) -> io::Result<bool>;
    /// Give the lock back now, also where a forked child has the descriptor too.
    fn unlock(&self) -> io::Result<()>;
}

/// Read a small file whole; `None` if it is missing, an error if it is longer than `limit`.
pub(crate) fn read_small(dir: &dyn Directory, name: &str, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open_if_there(dir, name)? else { return Ok(None) };
    let length = file.len()?;
    if length > limit {
        let message = format!("the file has {length} bytes, at most {limit} are read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let length = usize::try_from(length).map_err(|e| io::Error::new(io::ErrorKind::FileTooLarge, e))?;
    let mut bytes = zeroed(length)?;
    file.read_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

/// The first bytes of a file, at most `limit`; `None` if it is missing.
pub(crate) fn read_start(dir: &dyn Directory, name: &str, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open_if_there(dir, name)? else { return Ok(None) };
    let mut bytes = zeroed(usize::try_from(file.len()?).map_or(limit, |length| length.min(limit)))?;
    file.read_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

fn open_if_there(dir: &dyn Directory, name: &str) -> io::Result<Option<Arc<dyn File>>> {
    match dir.open(name, Access::Read) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Memory whose size a file asked for: an error rather than an abort where there is none.
pub(crate) fn zeroed(length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|e| io::Error::new(io::ErrorKind::OutOfMemory, e))?;
    bytes.resize(length, 0);
    Ok(bytes)
}

/// Replace a small file durably and atomically: temporary name, sync, rename, sync of the directory.
pub(crate) fn replace(dir: &dyn Directory, name: &str, bytes: &[u8]) -> io::Result<()> {
    let temporary = crate::format::names::temporary(name);
    let file = dir.open(&temporary, Access::Write)?;
    let written = file.set_len(0).and_then(|()| file.write_at(bytes, 0)).and_then(|()| file.sync());
    if let Err(e) = written {
        // On a full disk what was written of it takes the space that others need.
        let _ = dir.remove(&temporary);
        return Err(e);
    }
    dir.rename(&temporary, name)?;
    dir.sync()
}

/// Remove a file that may be missing.
pub(crate) fn remove_if_there(dir: &dyn Directory, name: &str) -> io::Result<()> {
    match dir.remove(name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
