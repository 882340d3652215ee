//! Copying records, past the caches if wanted.
//!
//! A batch that is larger than the caches is not found there by whoever uses it next, so going through them costs a read of each line of
//! the destination for nothing. Streaming stores write whole lines instead.
//!
//! Unsafe, on x86-64: a streaming store that is not aligned is a fault, and such stores may become visible to other threads later than
//! what is stored after them. They are given 16 bytes that lie on a multiple of 16 (an unaligned head is copied before), and whoever streamed calls [`finish`] before
//! it tells anyone.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

#[cfg(target_arch = "x86_64")]
use crate::prefetch::{LEAD, LINE, prefetch};

/// How a destination is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// Through the caches, where it is found again soon.
    Cached,
    /// Past them. [`finish`] comes last.
    Streaming,
}

#[cfg(target_arch = "x86_64")]
const WORD: usize = 16;

/// Copy `from` to `to`, which is as long.
#[inline]
pub(crate) fn copy(from: &[u8], to: &mut [u8], stores: Stores) {
    #[cfg(target_arch = "x86_64")]
    if stores == Stores::Streaming {
        return copy_streaming(from, to);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = stores;
    // A number is moved in less time than a call takes.
    match (<&[u8; 8]>::try_from(from), <&mut [u8; 8]>::try_from(&mut *to)) {
        (Ok(from), Ok(to)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}

/// Make what was streamed visible to whoever hears of it from here on.
#[inline]
pub(crate) fn finish(stores: Stores) {
    #[cfg(target_arch = "x86_64")]
    if stores == Stores::Streaming {
        // SAFETY: every x86-64 processor has it.
        unsafe {
            _mm_sfence();
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = stores;
}

#[cfg(target_arch = "x86_64")]
fn copy_streaming(from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "a place of another length");
    // Lines are streamed whole: so they are written without having been read.
    let head = to.as_ptr().align_offset(LINE).min(to.len());
    let ((head, from), (place, to)) = (from.split_at(head), to.split_at_mut(head));
    place.copy_from_slice(head);
    let (lines, rest) = from.as_chunks::<LINE>();
    let (places, rest_places) = to.as_chunks_mut::<LINE>();
    for (line, place) in lines.iter().zip(places) {
        prefetch(line, LEAD, 1);
        for (word, place) in line.as_chunks::<WORD>().0.iter().zip(place.as_chunks_mut::<WORD>().0) {
            // SAFETY: reads the 16 bytes of `word`, for which this load needs no alignment; `place` is aligned, behind `head`.
            unsafe { stream(place, _mm_loadu_si128(word.as_ptr().cast())) };
        }
    }
    rest_places.copy_from_slice(rest);
}

/// Stream a word to a place.
///
/// # Safety
/// `place` lies on a multiple of 16.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) unsafe fn stream(place: &mut [u8; WORD], word: __m128i) {
    debug_assert!(place.as_ptr().cast::<__m128i>().is_aligned());
    // SAFETY: writes the 16 bytes of `place`, which is aligned.
    unsafe { _mm_stream_si128(place.as_mut_ptr().cast(), word) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_place_is_copied_and_nothing_around_it() {
        for length in (0..70).chain([127, 128, 129, 1000]) {
            let from: Vec<u8> = (0..length).map(|i| u8::try_from(i % 251 + 1).unwrap()).collect();
            for shift in 0..17 {
                for stores in [Stores::Cached, Stores::Streaming] {
                    let mut around = vec![0; shift + length + 17];
                    copy(&from, &mut around[shift..][..length], stores);
                    finish(stores);
                    let expected = [&vec![0; shift][..], &from, &[0; 17]].concat();
                    assert_eq!(around, expected, "{length} bytes at {shift}, {stores:?}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "a place of another length")]
    fn a_place_of_another_length_is_refused() {
        copy(&[1; 128], &mut [0; 64], Stores::Streaming);
    }
}
