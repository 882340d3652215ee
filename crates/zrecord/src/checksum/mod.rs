//! CRC-32C (Castagnoli, RFC 3720), the checksum of `docs/format.md`.
//!
//! On x86-64 there is a kernel of our own (`x86.rs`) that can copy in the same pass. Wide vectors beat it at long inputs: with
//! AVX-512, and on all other processors, the crate crc-fast does the work.

#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

use crc_fast::{CrcAlgorithm, Digest};

use crate::copy::{Stores, copy};

/// The CRC-32C of bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_pair(bytes, &[])
}

/// Of two runs of bytes, one after the other.
#[inline]
pub(crate) fn crc32c_pair(first: &[u8], second: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if let Some(kernel) = x86::Kernel::best_for(first.len()) {
        return kernel.sum(first, second);
    }
    portable(first, second)
}

/// Copy `from` to `to`, which is as long; the checksum of what was copied, followed by `after`.
#[inline]
pub(crate) fn copy_crc32c_pair(from: &[u8], to: &mut [u8], after: &[u8], stores: Stores) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if from.len() == to.len() {
        // What bypasses the caches must be copied and summed in one pass.
        let kernel = match stores {
            Stores::Cached => x86::Kernel::best_for(from.len()),
            Stores::Streaming => x86::Kernel::new(),
        };
        if let Some(kernel) = kernel {
            return kernel.copy_and_sum(from, to, after, stores);
        }
    }
    copy(from, to, stores);
    // What was streamed is not in the caches any more: of that the source is summed.
    if stores == Stores::Cached { crc32c_pair(to, after) } else { crc32c_pair(from, after) }
}

fn portable(first: &[u8], second: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(first);
    digest.update(second);
    low32(digest.finalize())
}

#[expect(clippy::cast_possible_truncation, reason = "a 32-bit CRC lies in the low half of crc-fast's u64")]
fn low32(crc: u64) -> u32 {
    crc as u32
}
