//! A real directory.

#![expect(clippy::disallowed_methods, reason = "this file is the door to the disk")]

use std::fs;
use std::io::{self, Seek};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::local::reading_takes_space;
use super::mapped::Map;
use super::{Access, Directory, File, Lock, writeback};

/// A directory of the file system; `map` says whether its files are offered as memory.
#[derive(Debug)]
pub(crate) struct RealDirectory {
    path: PathBuf,
    map: bool,
}

impl RealDirectory {
    pub(crate) fn new(path: &Path, map: bool) -> Self {
        Self { path: path.to_path_buf(), map }
    }

    /// Make the directory and its parents, durably as far as its own entry goes.
    pub(crate) fn create(path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)?;
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
            _ => sync_directory(Path::new(".")),
        }
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    match fs::File::open(path)?.sync_all() {
        // Some file systems offer no sync of directories; there the rename is as durable as it gets.
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => Ok(()),
        other => other,
    }
}

impl Directory for RealDirectory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        let mut options = fs::OpenOptions::new();
        // Non-blocking: a pipe that somebody put there is refused below instead of waited for.
        options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        if access == Access::Write {
            options.write(true).create(true).truncate(false);
        }
        let file = options.open(self.path.join(name))?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Arc::new(RealFile { file, map: self.map }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn sync(&self) -> io::Result<()> {
        sync_directory(&self.path)
    }
}

#[derive(Debug)]
struct RealFile {
    file: fs::File,
    map: bool,
}

impl File for RealFile {
    fn len(&self) -> io::Result<u64> {
        // Nobody uses the cursor: all access is positional. Asking by it takes half the time that a stat takes.
        (&self.file).seek(io::SeekFrom::End(0))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync(&self) -> io::Result<()> {
        // Times of change are not content.
        self.file.sync_data()
    }

    fn begin_sync(&self, offset: u64, length: u64) {
        writeback::begin(&self.file, offset, length);
    }

    fn is_at_hand(&self, offset: u64) -> bool {
        #[cfg(target_os = "linux")]
        {
            use rustix::io::{Errno, ReadWriteFlags, preadv2};
            let mut byte = [0];
            let read =
                preadv2(&self.file, &mut [io::IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT);
            read != Err(Errno::AGAIN)
        }
        #[cfg(not(target_os = "linux"))]
        {
            let _ = offset;
            true
        }
    }

    fn ask(&self, bytes: Range<u64>) {
        // A hint: it may be refused.
        #[cfg(target_os = "linux")]
        if let Some(length) = bytes.end.checked_sub(bytes.start).and_then(NonZeroU64::new) {
            let _ = rustix::fs::fadvise(&self.file, bytes.start, Some(length), rustix::fs::Advice::WillNeed);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = bytes;
    }

    fn map(&self) -> io::Result<Option<Map>> {
        if self.map && !reading_takes_space(&self.file) { Map::of(&self.file).map(Some) } else { Ok(None) }
    }

    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        let outcome = match lock {
            Lock::Shared => self.file.try_lock_shared(),
            Lock::Exclusive => self.file.try_lock(),
        };
        match outcome {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(e)) => Err(e),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}
