//! Hints to the processor.
//!
//! What could go wrong: nothing is read or written; a prefetch of any address is only a hint and never faults.

/// Bytes of a cache line, or a part of one.
pub(crate) const LINE: usize = 64;

/// The first so many bytes of a record are asked for while the one before it is read; whoever reads it asks for what follows.
pub(crate) const LEAD: usize = 512;

/// Ask for the cache lines of `length` bytes from `start` on, which need not be within `bytes`.
#[inline]
pub(crate) fn prefetch(bytes: &[u8], start: usize, length: usize) {
    #[cfg(target_arch = "x86_64")]
    ask::<{ std::arch::x86_64::_MM_HINT_T0 }>(bytes, start, length);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, start, length);
}

/// As [`prefetch`], for what is read once: it passes through the first cache only, and pushes nothing out of the others.
#[inline]
pub(crate) fn prefetch_once(bytes: &[u8], start: usize, length: usize) {
    #[cfg(target_arch = "x86_64")]
    ask::<{ std::arch::x86_64::_MM_HINT_NTA }>(bytes, start, length);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, start, length);
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ask<const HINT: i32>(bytes: &[u8], start: usize, length: usize) {
    for line in (0..length).step_by(LINE) {
        // SAFETY: prefetching has no effect that a program can see, whatever the address.
        unsafe { std::arch::x86_64::_mm_prefetch::<HINT>(bytes.as_ptr().wrapping_add(start + line).cast()) };
    }
}
