//! The memory of batches: owned, aligned, and used again once nobody has it any more.
//!
//! Fresh memory costs a page fault and a cleared page for every page of a batch, which takes longer than copying the records. So blocks of
//! 64 KiB and more that a batch gives back are kept for the next ones: a few of each kind (`Kind`), for a few seconds.
//!
//! All memory here is initialised in Rust's sense, without being cleared for each batch: a small one is allocated zeroed, a block is an
//! anonymous map, which the system hands out as zeros, and one that is used again holds what was written into it before. What it holds is
//! unspecified, but it is never anybody's secret: it is this process's own data.
//!
//! What could go wrong with the unsafe here: memory that is seen after it is freed, freed twice or as another size, or that two batches
//! share. A small one is freed by its one owner's drop with the layout that it was allocated with, and slices of it borrow from the owner;
//! blocks are handed on whole, as values of memmap2.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::hint;
use std::process;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use memmap2::{MmapMut, MmapOptions};

/// Every batch begins at a multiple of this: a cache line, and the widest vector.
pub const ALIGNMENT: usize = 64;

/// Bytes from which memory is used again.
const REUSED_FROM: usize = 64 << 10;
/// Bytes from which blocks are whole huge pages; those below are no longer than 1 MiB, so that a block's length tells its kind.
const HUGE_FROM: usize = (1 << 20) + 1;
/// How long a free block is kept.
const IDLE: Duration = Duration::from_secs(2);

/// Two kinds of blocks: small ones can't push out the large ones that were dear to make.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    Huge,
}

impl Kind {
    fn of(bytes: usize) -> Self {
        if bytes < HUGE_FROM { Self::Plain } else { Self::Huge }
    }

    /// Blocks are multiples of this.
    fn unit(self) -> usize {
        match self {
            Self::Plain => REUSED_FROM,
            Self::Huge => 2 << 20,
        }
    }

    /// Free blocks that are kept: a loader has some four batches ahead, of several streams, and the consumer gives back one at a time.
    fn kept(self) -> usize {
        match self {
            Self::Plain => 16,
            Self::Huge => 8,
        }
    }
}

/// Free blocks, and since when they are.
struct Free {
    /// Whose blocks they are: a forked child's copies would cost more than fresh memory.
    process: u32,
    blocks: Vec<(MmapMut, Instant)>,
    /// Whether a thread is there that gives back what nobody takes.
    trimmed: bool,
}

/// Bytes of the blocks that batches have.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

static FREE: Mutex<Free> = Mutex::new(Free { process: 0, blocks: Vec::new(), trimmed: false });

/// Memory of a batch: initialised bytes of unspecified content, at a multiple of [`ALIGNMENT`]. It stays where it is when its owner moves.
#[derive(Debug)]
pub struct Memory {
    place: Place,
    length: usize,
}

#[derive(Debug)]
enum Place {
    Small {
        start: NonNull<u8>,
        layout: Layout,
    },
    /// `None` only while it is dropped.
    Block(Option<MmapMut>),
}

// SAFETY: the memory behind `start` is this value's alone, and the allocator takes it back from any thread.
unsafe impl Send for Memory {}
// SAFETY: through a shared reference it can only be read.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory of `length` bytes; `None` if the system has none.
    #[must_use]
    pub fn new(length: usize) -> Option<Self> {
        if length >= REUSED_FROM {
            let block = block(length)?;
            IN_USE.fetch_add(block.len(), Ordering::Relaxed);
            return Some(Self { place: Place::Block(Some(block)), length });
        }
        let layout = Layout::from_size_align(length.max(1), ALIGNMENT).ok()?;
        // SAFETY: the layout is of at least one byte.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { place: Place::Small { start, layout }, length })
    }

    /// Its bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        match &self.place {
            // SAFETY: allocated with at least `length` bytes, all initialised, and borrowed from their one owner.
            Place::Small { start, .. } => unsafe { std::slice::from_raw_parts(start.as_ptr(), self.length) },
            Place::Block(block) => {
                block.as_ref().and_then(|block| block.get(..self.length)).unwrap_or_default()
            }
        }
    }

    /// The bytes, to be written.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.place {
            // SAFETY: as above, and the borrow is exclusive.
            Place::Small { start, .. } => unsafe {
                std::slice::from_raw_parts_mut(start.as_ptr(), self.length)
            },
            Place::Block(block) => {
                block.as_mut().and_then(|block| block.get_mut(..self.length)).unwrap_or_default()
            }
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &mut self.place {
            // SAFETY: allocated with this layout, and not freed before: this is the one owner's end.
            Place::Small { start, layout } => unsafe { dealloc(start.as_ptr(), *layout) },
            Place::Block(block) => {
                if let Some(block) = block.take() {
                    IN_USE.fetch_sub(block.len(), Ordering::Relaxed);
                    keep(block);
                }
            }
        }
    }
}

/// Blocks of this process, in bytes. Memory below 64 KiB is the allocator's, and not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Batches that somebody has, or that wait to be taken.
    pub in_use: usize,
    /// Blocks that are free, and kept for the next batches for two seconds.
    pub kept: usize,
}

/// How much memory batches hold now.
#[must_use]
pub fn held() -> Held {
    let kept = free().map_or(0, |free| free.blocks.iter().map(|(block, _)| block.len()).sum());
    Held { in_use: IN_USE.load(Ordering::Relaxed), kept }
}

/// A block of at least `bytes`, a free one if there is one.
fn block(bytes: usize) -> Option<MmapMut> {
    let kind = Kind::of(bytes);
    if let Some(mut free) = free() {
        let most = bytes.saturating_mul(2).max(kind.unit());
        let fits = |block: &MmapMut| Kind::of(block.len()) == kind && (bytes..=most).contains(&block.len());
        if let Some(at) = free.blocks.iter().rposition(|(block, _)| fits(block)) {
            return Some(free.blocks.remove(at).0);
        }
    }
    let size = bytes.checked_next_multiple_of(kind.unit())?;
    let block = MmapOptions::new().len(size).map_anon().ok()?;
    #[cfg(target_os = "linux")]
    if kind == Kind::Huge {
        // Advice may be refused.
        let _ = block.advise(memmap2::Advice::HugePage);
    }
    Some(block)
}

/// Keep a block for the next batches.
fn keep(block: MmapMut) {
    let Some(mut free) = free() else { return };
    let kind = Kind::of(block.len());
    let alike = free.blocks.iter().filter(|(block, _)| Kind::of(block.len()) == kind).count();
    let oldest = free.blocks.iter().position(|(block, _)| Kind::of(block.len()) == kind);
    let surplus = oldest.filter(|_| alike >= kind.kept()).map(|at| free.blocks.remove(at));
    free.blocks.push((block, Instant::now()));
    let untrimmed = !std::mem::replace(&mut free.trimmed, true);
    drop(free);
    drop(surplus);
    if untrimmed && thread::Builder::new().name("loaderx-memory".to_owned()).spawn(trim).is_err() {
        // The next one tries again.
        if let Some(mut free) = self::free() {
            free.trimmed = false;
        }
    }
}

/// The free blocks of this process. Never waited for long: at a fork the lock may be another thread's, and is then held for ever.
fn free() -> Option<MutexGuard<'static, Free>> {
    for _ in 0..1000 {
        if let Ok(mut free) = FREE.try_lock() {
            if free.process != process::id() {
                *free = Free { process: process::id(), blocks: Vec::new(), trimmed: false };
            }
            return Some(free);
        }
        hint::spin_loop();
    }
    None
}

/// A thread's life: give back what was free for long, until nothing is free.
fn trim() {
    loop {
        thread::sleep(IDLE / 4);
        let Some(mut free) = free() else { continue };
        let now = Instant::now();
        let (old, kept) = free.blocks.drain(..).partition(|(_, since)| now.duration_since(*since) >= IDLE);
        free.blocks = kept;
        let done = free.blocks.is_empty();
        free.trimmed = !done;
        drop(free);
        drop::<Vec<_>>(old);
        if done {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_length_is_aligned_and_written() {
        for length in [0, 1, 63, 65, REUSED_FROM - 1, REUSED_FROM, HUGE_FROM - 1, HUGE_FROM, 5 << 20] {
            let mut memory = Memory::new(length).unwrap();
            assert_eq!((memory.len(), memory.is_empty()), (length, length == 0));
            assert_eq!(memory.as_slice().as_ptr().addr() % ALIGNMENT, 0);
            memory.as_mut_slice().fill(7);
            assert_eq!(memory.as_slice().len(), length);
            assert!(memory.as_slice().iter().all(|&byte| byte == 7));
        }
    }

    #[test]
    fn more_than_there_is_is_refused() {
        for length in [1 << 62, usize::MAX - 1, usize::MAX] {
            assert!(Memory::new(length).is_none());
        }
    }

    #[test]
    fn memory_that_is_alive_is_never_shared() {
        let life = |number: u8| {
            let mut held: Vec<Memory> = Vec::new();
            for round in 0..200_usize {
                let mut memory = Memory::new(REUSED_FROM * (1 + round % 40)).unwrap();
                memory.as_mut_slice().fill(number);
                held.push(memory);
                if held.len() > 5 {
                    let memory = held.swap_remove(round % 5);
                    assert!(memory.as_slice().iter().all(|&byte| byte == number));
                }
            }
        };
        thread::scope(|scope| {
            for number in 0..4 {
                scope.spawn(move || life(number));
            }
        });
    }
}
