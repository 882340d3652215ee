//! Asking the kernel to begin with what a later sync would have to wait for.
//!
//! Unsafe: one system call that no library of ours has. What could go wrong: nothing in memory, for it takes no pointer, and its descriptor is
//! borrowed from an open file. What was begun is not durable, and its failure is not looked at here: the sync reports both.

use std::fs;

/// Begin to write `length` bytes at `offset` to the disk, and don't wait for it.
#[cfg(target_os = "linux")]
pub(super) fn begin(file: &fs::File, offset: u64, length: u64) {
    use std::os::fd::AsRawFd;

    let (Ok(offset), Ok(length)) = (offset.try_into(), length.try_into()) else { return };
    // SAFETY: takes numbers only, and `file` keeps the descriptor open.
    let _ = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Elsewhere nobody offers this without waiting.
#[cfg(not(target_os = "linux"))]
pub(super) fn begin(_: &fs::File, _: u64, _: u64) {}
