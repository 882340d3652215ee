//! A part of the next sync, done while more is appended: a disk that is asked to make much durable only in the end lets its caller
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
    chunks: Sender<Chunk>,
    thread: JoinHandle<Result<(), Failure>>,
}

/// A chunk's number and its file.
type Chunk = (u64, Arc<dyn File>);
/// The number of a chunk that could not be synced, and why.
pub(super) type Failure = (u64, io::Error);

impl SyncAhead {
    /// `None` where there is no thread to be had: then the next sync does all of it.
    pub(super) fn start() -> Option<Self> {
        let (chunks, queue) = channel();
        let named = thread::Builder::new().name("zrecord-sync".to_owned());
        Some(Self { chunks, thread: named.spawn(move || sync_all(&queue)).ok()? })
    }

    /// Sync a chunk as soon as those before it are.
    pub(super) fn add(&self, chunk: u64, file: Arc<dyn File>) {
        // A thread that is gone has failed, which `finish` tells.
        let _ = self.chunks.send((chunk, file));
    }

    /// Wait for the sync that is under way, and tell how all of them went.
    pub(super) fn finish(self) -> Result<(), Failure> {
        drop(self.chunks);
        self.thread.join().unwrap_or_else(|_| Err((0, io::Error::other("the thread that syncs panicked"))))
    }
}

/// A chunk that was added several times while another sync took its time is synced once.
fn sync_all(queue: &Receiver<Chunk>) -> Result<(), Failure> {
    let sync = |(number, file): &Chunk| file.sync().map_err(|e| (*number, e));
    while let Ok(mut chunk) = queue.recv() {
        for later in queue.try_iter() {
            if chunk.0 != later.0 {
                sync(&chunk)?;
            }
            chunk = later;
        }
        sync(&chunk)?;
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
            (0..3).for_each(|_| ahead.add(7, file.clone()));
            assert_eq!(ahead.finish().map_err(|(chunk, _)| chunk), if fails { Err(7) } else { Ok(()) });
        }
    }
}
