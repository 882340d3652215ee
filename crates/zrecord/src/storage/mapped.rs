//! A file as memory, mapped again when it has grown.
//!
//! What could go wrong: a mapped page that no longer exists in the file ends the process (SIGBUS), and bytes that somebody
//! else writes change under a `&[u8]`. Why it doesn't here: a map never reaches beyond the file's length at the time of
//! mapping, committed bytes are cut off only by compaction, which needs the store alone, and by mending, which who opens the store
//! waits for (see `lock.rs`); everything else that is cut lies behind the last committed record, where no reader looks; and the
//! bytes that a reader looks at (those of committed records) are written once, before the record can be seen. A foreign
//! program that truncates a file is noticed by whoever enters it next, since each entry asks for the file's length; a cut
//! between that and the copy is outside of what a map can bear, and `io="pread"` is for those who must fear it.

use std::fs;
use std::io;
use std::ops::{Deref, Range};
use std::sync::{Arc, RwLock};

use super::File;

/// Read-only memory that shows a file, or as much of it as was still there when it was last asked for its length.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    memory: Arc<memmap2::Mmap>,
    length: usize,
}

impl Map {
    pub(crate) fn of(file: &fs::File) -> io::Result<Self> {
        // SAFETY: the map is read-only and as long as the file is now; see the head of this file for who may change it.
        let map = unsafe { memmap2::MmapOptions::new().map(file)? };
        // Batches are random: reading ahead around each fault would read what nobody asked for. Advice may be refused.
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Random);
        Ok(Self { length: map.len(), memory: Arc::new(map) })
    }

    /// The part that lies within a file of `length` bytes.
    fn within(self, length: u64) -> Self {
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(self.length);
        Self { length, ..self }
    }

    fn at_least(self, needed: u64) -> io::Result<Self> {
        let length = self.length;
        if (length as u64) < needed {
            let message = format!("the file ends at byte {length}, but byte {needed} is needed");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        Ok(self)
    }
}

impl Deref for Map {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.memory.get(..self.length).unwrap_or_default()
    }
}

/// A file with its latest map.
#[derive(Debug)]
pub(crate) struct Mapped {
    file: Arc<dyn File>,
    map: RwLock<Option<Map>>,
}

impl Mapped {
    pub(crate) fn new(file: Arc<dyn File>) -> Self {
        Self { file, map: RwLock::new(None) }
    }

    pub(crate) fn file(&self) -> &dyn File {
        &*self.file
    }

    /// The addresses of the latest map, if there is one.
    pub(crate) fn place(&self) -> Option<Range<usize>> {
        let map = self.map.try_read().ok()?.clone()?;
        let start = map.memory.as_ptr().addr();
        Some(start..start.saturating_add(map.memory.len()))
    }

    /// Let go of the latest map. Who reads through it at this moment, and views of it, keep it; who comes next maps the file again.
    pub(crate) fn unmap(&self) {
        if let Ok(mut slot) = self.map.try_write() {
            *slot = None;
        }
    }

    /// A map of at least `needed` bytes, all of them in the file at this moment; `None` where the storage offers none.
    /// `UnexpectedEof` if the file is shorter.
    ///
    /// Nobody is waited for: in a forked child the lock may be held for ever by a thread of the parent.
    pub(crate) fn map(&self, needed: u64) -> io::Result<Option<Map>> {
        let known = self.map.try_read().ok().and_then(|map| map.clone());
        if let Some(map) = known
            && map.len() as u64 >= needed
        {
            return map.within(self.file.len()?).at_least(needed).map(Some);
        }
        let Some(map) = self.file.map()? else { return Ok(None) };
        if let Ok(mut slot) = self.map.try_write() {
            *slot = Some(map.clone());
        }
        map.at_least(needed).map(Some)
    }
}
