//! A part of the next sync, done while more is appended: a disk that is asked to make a large append durable only in the end lets its caller
//! wait for all of it at once.
//!
//! Nothing counts as durable by this. What fails here is the next sync's failure: the operating system tells it once, and whoever
//! hears of it must pass it on.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::storage::File;

/// A thread that syncs files one after another.
#[derive(Debug)]
pub(super) struct SyncAhead {
    files: Sender<Arc<dyn File>>,
    thread: JoinHandle<io::Result<()>>,
}

impl SyncAhead {
    /// `None` where there is no thread to be had: then the next sync does all of it.
    pub(super) fn start() -> Option<Self> {
        let (files, queue) = channel();
        let named = thread::Builder::new().name("zrecord-sync".to_owned());
        Some(Self { files, thread: named.spawn(move || sync_all(&queue)).ok()? })
    }

    /// Sync a file as soon as those before it are.
    pub(super) fn add(&self, file: Arc<dyn File>) {
        // A thread that is gone has failed, which `finish` tells.
        let _ = self.files.send(file);
    }

    /// Wait for the sync that is under way, and tell how all of them went.
    pub(super) fn finish(self) -> io::Result<()> {
        drop(self.files);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that syncs panicked")))
    }
}

/// A file that was added several times while another sync took its time is synced once.
fn sync_all(queue: &Receiver<Arc<dyn File>>) -> io::Result<()> {
    while let Ok(mut file) = queue.recv() {
        for later in queue.try_iter() {
            if !Arc::ptr_eq(&file, &later) {
                file.sync()?;
                file = later;
            }
        }
        file.sync()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::faulty::{FaultyDirectory, Fuse};
    use crate::storage::memory::MemoryDirectory;
    use crate::storage::{Access, Directory};

    #[test]
    fn a_failure_is_told_in_the_end_and_only_then() {
        for (changes, fails) in [(1, true), (u64::MAX, false)] {
            let dir = FaultyDirectory::new(MemoryDirectory::new(), Fuse::after(changes, false));
            let file = dir.open("0.chunk", Access::Write).unwrap();
            let ahead = SyncAhead::start().unwrap();
            (0..3).for_each(|_| ahead.add(file.clone()));
            assert_eq!(ahead.finish().is_err(), fails);
        }
    }
}
