//! Memory for large batches, used again once the last array on it is gone.
//!
//! Fresh memory costs a page fault and a cleared page for every page of a batch, which takes longer than copying the records. What a
//! batch gives back is kept for the next one, at most [`KEPT`] blocks, the oldest going first.
//!
//! What could go wrong with the unsafe here: an array that outlives its memory, or two arrays on the same memory. An array's base is the
//! [`Block`] that owns the memory, so it lives as long as any view of the array, and a block is handed out to one array only.

use std::sync::Mutex;

use memmap2::{MmapMut, MmapOptions};
use numpy::PyArray1;
use numpy::ndarray::ArrayView1;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;

/// Blocks are multiples of a huge page.
const UNIT: usize = 2 << 20;
/// Free blocks that are kept.
const KEPT: usize = 2;

static FREE: Mutex<Vec<MmapMut>> = Mutex::new(Vec::new());

/// Owner of an array's memory.
#[pyclass(frozen, module = "loaderx._core")]
struct Block(Option<MmapMut>);

impl Drop for Block {
    fn drop(&mut self) {
        // Never waited for: the lock may be another thread's at a fork, and then the memory just goes.
        if let (Some(memory), Ok(mut free)) = (self.0.take(), FREE.try_lock()) {
            if free.len() >= KEPT {
                free.remove(0);
            }
            free.push(memory);
        }
    }
}

/// A uint8 array of `length` bytes with unspecified content, aligned to a page.
#[pyfunction]
pub(crate) fn batch_memory(py: Python<'_>, length: usize) -> PyResult<Bound<'_, PyArray1<u8>>> {
    let mut memory = take(length)?;
    let bytes = memory.get_mut(..length).ok_or_else(|| PyMemoryError::new_err("the block is too small"))?;
    // The mapping stays where it is when its owner moves.
    let (start, length) = (bytes.as_mut_ptr().cast_const(), bytes.len());
    let owner = Bound::new(py, Block(Some(memory)))?.into_any();
    // SAFETY: the bytes belong to `owner`, which is the array's base and lives as long as the array; `bytes` ends before.
    let view = unsafe { ArrayView1::from_shape_ptr(length, start) };
    // SAFETY: `owner` keeps the memory of `view`, no other array is on it, and the mapping may be written to.
    Ok(unsafe { PyArray1::borrow_from_array(&view, owner) })
}

fn take(length: usize) -> PyResult<MmapMut> {
    if let Ok(mut free) = FREE.try_lock() {
        let fits = |memory: &MmapMut| (length..=length.saturating_mul(2).max(UNIT)).contains(&memory.len());
        if let Some(at) = free.iter().position(fits) {
            return Ok(free.swap_remove(at));
        }
    }
    let too_large = || PyMemoryError::new_err(format!("a batch of {length} bytes is larger than memory"));
    let size = length.max(1).checked_next_multiple_of(UNIT).ok_or_else(too_large)?;
    let memory = MmapOptions::new().len(size).map_anon().map_err(|_| too_large())?;
    #[cfg(target_os = "linux")]
    // Advice may be refused.
    let _ = memory.advise(memmap2::Advice::HugePage);
    Ok(memory)
}
