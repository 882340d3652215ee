//! Choices from the bytes of an input; once these are used up, each choice is 0.

use std::mem;

/// What is left of an input.
pub(super) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// At most `count` bytes.
    pub(super) fn take(&mut self, count: usize) -> &'a [u8] {
        let (now, later) = self.0.split_at(count.min(self.0.len()));
        self.0 = later;
        now
    }

    /// All that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        mem::take(&mut self.0)
    }

    pub(super) fn u8(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from(self.u16()) | u32::from(self.u16()) << 16
    }

    pub(super) fn flag(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// One of `0..count`.
    pub(super) fn below(&mut self, count: usize) -> usize {
        let choice = if count <= 256 { usize::from(self.u8()) } else { usize::from(self.u16()) };
        choice % count.max(1)
    }
}
