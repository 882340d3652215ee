//! Little-endian fields of fixed-size byte arrays.

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
