//! Unsafe: writing a record into memory that is not initialised yet.
//!
//! What could go wrong: writing past the destination, or calling bytes initialised that nobody wrote. It can't, because
//! the destination is a borrowed slice whose pointer and length are handed on together, and because the number of
//! initialised bytes comes from zstd's own count of written bytes, which zstd-safe checks against the capacity.
//! The only other write is a copy between two slices of equal length.

use std::mem::MaybeUninit;
use std::ptr;
use std::slice;

use zstd_safe::WriteBuf;

/// A destination for zstd.
pub(super) struct Uninit<'a> {
    memory: &'a mut [MaybeUninit<u8>],
    filled: usize,
}

impl<'a> Uninit<'a> {
    pub(super) fn new(memory: &'a mut [MaybeUninit<u8>]) -> Self {
        Self { memory, filled: 0 }
    }
}

// SAFETY: pointer and capacity are those of a slice that is borrowed mutably for as long as `self` lives, and
// `as_slice` covers what `filled_until` was told, and nothing before that.
unsafe impl WriteBuf for Uninit<'_> {
    fn as_slice(&self) -> &[u8] {
        // SAFETY: the caller of `filled_until` vouched for the first `filled` bytes, and they lie within the slice.
        unsafe { slice::from_raw_parts(self.memory.as_ptr().cast(), self.filled) }
    }

    fn capacity(&self) -> usize {
        self.memory.len()
    }

    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().cast()
    }

    unsafe fn filled_until(&mut self, n: usize) {
        self.filled = n.min(self.memory.len());
    }
}

/// Copies `from` to `to`; `false`, with nothing written, if their lengths differ.
pub(super) fn copy(from: &[u8], to: &mut [MaybeUninit<u8>]) -> bool {
    if from.len() != to.len() {
        return false;
    }
    // SAFETY: both slices have `from.len()` bytes, and they can't overlap because `to` is borrowed mutably.
    unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr().cast(), from.len()) };
    true
}

/// Initialised memory as a destination.
pub(super) fn as_uninit(memory: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    let length = memory.len();
    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`. Only decoders get this view, and they write bytes or nothing:
    // none of them un-initialises what it was given.
    unsafe { slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_bytes_are_initialised() {
        let mut memory = [MaybeUninit::uninit(); 8];
        let mut uninit = Uninit::new(&mut memory);
        assert_eq!(uninit.capacity(), 8);
        assert!(uninit.as_slice().is_empty());
        let frame = {
            let mut frame = Vec::with_capacity(64);
            zstd_safe::compress(&mut frame, b"abc", 1).unwrap();
            frame
        };
        assert_eq!(zstd_safe::decompress(&mut uninit, &frame).unwrap(), 3);
        assert_eq!(uninit.as_slice(), b"abc");
    }

    #[test]
    fn a_copy_needs_equal_lengths() {
        let mut memory = [MaybeUninit::new(0); 3];
        assert!(!copy(b"ab", &mut memory));
        assert!(!copy(b"abcd", &mut memory));
        assert!(copy(b"abc", &mut memory));
        let mut uninit = Uninit { memory: &mut memory, filled: 3 };
        assert_eq!(uninit.as_slice(), b"abc");
        assert!(!uninit.as_mut_ptr().is_null());
    }
}
