//! Little-endian fields of fixed-size byte arrays, and the checksum.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C (Castagnoli, RFC 3720), as in `docs/format.md`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    low32(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes))
}

/// CRC-32C of two runs of bytes, one after the other.
pub(crate) fn crc32c_pair(first: &[u8], second: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(first);
    digest.update(second);
    low32(digest.finalize())
}

#[expect(clippy::cast_possible_truncation, reason = "a 32-bit CRC lies in the low half of crc-fast's u64")]
fn low32(crc: u64) -> u32 {
    crc as u32
}

/// Copy `N` bytes at `at`; zeros beyond the end, which no caller reaches: sizes are checked by type.
pub(crate) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    if let Some(source) = at.checked_add(N).and_then(|end| bytes.get(at..end)) {
        out.copy_from_slice(source);
    }
    out
}

/// Write `value` at `at`; the layouts are fixed, so it always fits.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(target) = at.checked_add(value.len()).and_then(|end| bytes.get_mut(at..end)) {
        target.copy_from_slice(value);
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(take(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(take(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_crc32c() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c_pair(b"1234", b"56789"), 0xE306_9283);
        assert_eq!(crc32c(b""), 0);
    }
}
