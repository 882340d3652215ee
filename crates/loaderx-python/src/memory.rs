//! New arrays for batches. The memory of large ones is used again once the last array on it is gone.
//!
//! Fresh memory costs a page fault and a cleared page for every page of a batch, which takes longer than copying the records. What a
//! batch gives back is kept for the next one: at most [`KEPT`] blocks, for a few seconds.
//!
//! What could go wrong with the unsafe here: an array that outlives its memory, or two arrays on the same memory. An array's base is the
//! [`Block`] that owns the memory, so it lives as long as any view of the array, and a block is handed out to one array only. The
//! content of a new array is whatever was there, and NumPy owns the pages, so its bytes count as initialised.

use std::hint;
use std::process;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use memmap2::{MmapMut, MmapOptions};
use numpy::npyffi::PY_ARRAY_API;
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

use crate::array::plain;
use crate::view::{Elements, axes, byte_count, rank, view};

/// Bytes from which memory is used again: what is smaller, the allocator keeps at hand by itself.
const REUSED_FROM: usize = 1 << 20;
/// Blocks are multiples of a huge page.
const UNIT: usize = 2 << 20;
/// Free blocks that are kept.
const KEPT: usize = 2;
/// How long a free block is kept.
const IDLE: Duration = Duration::from_secs(2);

/// Free blocks, and since when they are.
struct Free {
    /// Whose blocks they are: a forked child's copies would cost more than fresh memory.
    process: u32,
    blocks: Vec<(MmapMut, Instant)>,
    /// Whether a thread is there that gives back what nobody takes.
    trimmed: bool,
}

static FREE: Mutex<Free> = Mutex::new(Free { process: 0, blocks: Vec::new(), trimmed: false });

/// Owner of an array's memory.
#[pyclass(frozen, module = "loaderx._core")]
struct Block(Option<MmapMut>);

impl Drop for Block {
    fn drop(&mut self) {
        let Some(memory) = self.0.take() else { return };
        let Some(mut free) = free() else { return };
        let surplus = (free.blocks.len() >= KEPT).then(|| free.blocks.remove(0));
        free.blocks.push((memory, Instant::now()));
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

/// An array of unspecified content, C-contiguous and writable, its memory its own for as long as it or a view of it lives.
#[pyfunction]
#[pyo3(name = "empty")]
pub(crate) fn empty_array<'py>(
    shape: Vec<usize>,
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    plain(dtype)?;
    empty(&shape, dtype)
}

/// As [`empty_array`]. `dtype` holds no references to objects.
pub(crate) fn empty<'py>(
    shape: &[usize],
    dtype: &Bound<'py, PyArrayDescr>,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let py = dtype.py();
    let too_large = || {
        PyMemoryError::new_err(format!("an array of shape {shape:?} and dtype {dtype} is larger than memory"))
    };
    let bytes = byte_count(shape, dtype).ok_or_else(too_large)?;
    if bytes < REUSED_FROM {
        let mut axes = axes(shape)?;
        // SAFETY: `axes` are so many numbers as its rank says; the reference to the dtype is the array's from here on. Null is an error
        // that NumPy has set.
        let array = unsafe {
            let dtype = dtype.clone().into_dtype_ptr();
            let array = PY_ARRAY_API.PyArray_Empty(py, rank(&axes), axes.as_mut_ptr(), dtype, 0);
            Bound::from_owned_ptr_or_err(py, array)?
        };
        return Ok(array.cast_into()?);
    }
    let mut memory = take(bytes).ok_or_else(too_large)?;
    // The mapping stays where it is when its owner moves.
    let start = memory.as_mut_ptr();
    let owner = Bound::new(py, Block(Some(memory)))?.into_any();
    // SAFETY: the block is at least that long, aligned to a page and writable, no other array is on it, and it lives as long as its owner.
    unsafe { view(shape, dtype, start, Elements::Writable, owner) }
}

/// A block of at least `bytes`.
fn take(bytes: usize) -> Option<MmapMut> {
    if let Some(mut free) = free() {
        let fits = |(memory, _): &(MmapMut, Instant)| {
            (bytes..=bytes.saturating_mul(2).max(UNIT)).contains(&memory.len())
        };
        if let Some(at) = free.blocks.iter().rposition(fits) {
            return Some(free.blocks.remove(at).0);
        }
    }
    let size = bytes.checked_next_multiple_of(UNIT)?;
    let memory = MmapOptions::new().len(size).map_anon().ok()?;
    #[cfg(target_os = "linux")]
    // Advice may be refused.
    let _ = memory.advise(memmap2::Advice::HugePage);
    Some(memory)
}
