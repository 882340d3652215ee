//! Ways to copy records, and the search for the fastest one.

use std::ops::Range;

use crate::batch::Batch;
use crate::memory::Destination;
use crate::truth::Truth;

/// From here on a record is worth stores that pass the caches by.
const STREAMED_FROM: usize = 4096;
/// Bytes of a record that are asked for ahead.
const AHEAD_BYTES: usize = 4096;
const LINE: usize = 64;

#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub threads: usize,
    pub blocks: usize,
    streamed: bool,
    /// How many records ahead of the one that is copied memory is asked for.
    ahead: usize,
}

impl Way {
    /// Every way that is worth a try for records of about `record_bytes`.
    pub fn all(record_bytes: usize, cores: usize) -> Vec<Self> {
        let mut ways = Vec::new();
        for (threads, blocks) in [(1, 1), (cores, cores), (cores, 4 * cores), (cores, 16 * cores)] {
            for ahead in [0, 1, 2, 4, 16] {
                for streamed in [false, true] {
                    if !streamed || record_bytes >= STREAMED_FROM {
                        ways.push(Self { threads, blocks, streamed, ahead });
                    }
                }
            }
        }
        ways
    }

    /// Copies block `block` of the batch to its place in the buffer.
    pub fn copy(&self, truth: &Truth, batch: &Batch, block: usize, buffer: Destination) {
        let positions = part(batch.indices.len(), block, self.blocks);
        for position in positions.clone() {
            if self.ahead > 0 && position + self.ahead < positions.end {
                prefetch(truth.record(batch.indices[position + self.ahead]));
            }
            let source = truth.record(batch.indices[position]);
            // SAFETY: records have places of their own, and each position belongs to one block.
            let target = unsafe { buffer.slice(batch.starts[position], source.len()) };
            match (source.len(), self.streamed) {
                (8, _) => target.copy_from_slice(&source[..8]),
                (_, false) => target.copy_from_slice(source),
                (_, true) => stream(source, target),
            }
        }
        fence();
    }
}

/// The `number`th of `parts` parts of `0..len`.
pub fn part(len: usize, number: usize, parts: usize) -> Range<usize> {
    len * number / parts..len * (number + 1) / parts
}

#[cfg(target_arch = "x86_64")]
fn prefetch(record: &[u8]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in record[..record.len().min(AHEAD_BYTES)].chunks(LINE) {
        // SAFETY: a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

#[cfg(target_arch = "x86_64")]
fn fence() {
    // SAFETY: SSE is part of x86-64.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// Copies with stores that leave the caches alone: the buffer is larger than they are.
#[cfg(target_arch = "x86_64")]
fn stream(source: &[u8], target: &mut [u8]) {
    if !is_x86_feature_detected!("avx") {
        return target.copy_from_slice(source);
    }
    let head = target.as_ptr().align_offset(LINE).min(source.len());
    let body = (source.len() - head) / LINE * LINE;
    target[..head].copy_from_slice(&source[..head]);
    target[head + body..].copy_from_slice(&source[head + body..]);
    // SAFETY: AVX is there; the target is aligned, and both are `body` bytes of whole lines.
    unsafe { stream_lines(&source[head..head + body], &mut target[head..head + body]) };
}

/// # Safety
/// The processor has AVX; `target` is aligned to lines, and both are equally many whole lines.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn stream_lines(source: &[u8], target: &mut [u8]) {
    use std::arch::x86_64::{_MM_HINT_NTA, _mm_prefetch, _mm256_loadu_si256, _mm256_stream_si256};
    for (from, to) in source.chunks_exact(LINE).zip(target.chunks_exact_mut(LINE)) {
        _mm_prefetch::<_MM_HINT_NTA>(from.as_ptr().wrapping_add(8 * LINE).cast());
        // SAFETY: 64 bytes each; the target is aligned.
        unsafe {
            let low = _mm256_loadu_si256(from.as_ptr().cast());
            let high = _mm256_loadu_si256(from.as_ptr().add(32).cast());
            _mm256_stream_si256(to.as_mut_ptr().cast(), low);
            _mm256_stream_si256(to.as_mut_ptr().add(32).cast(), high);
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_: &[u8]) {}

#[cfg(not(target_arch = "x86_64"))]
fn fence() {}

#[cfg(not(target_arch = "x86_64"))]
fn stream(source: &[u8], target: &mut [u8]) {
    target.copy_from_slice(source);
}
