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
use crate::prefetch::{LEAD, LINE, prefetch_once};

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
/// Stores further than this ahead of the loads are done when those come.
#[cfg(target_arch = "x86_64")]
const NEAR: usize = 2 * LINE;
/// What a processor compares of two addresses before it takes them for the same.
#[cfg(target_arch = "x86_64")]
const LOW: usize = 4096;

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
    if meets_itself(from, to) { stream_lines::<true>(from, to) } else { stream_lines::<false>(from, to) }
}

/// Whether a copy's stores seem to hit what it loads next.
///
/// A load waits for an earlier store on the way if the low 12 bits of their addresses overlap, and for a streaming store it waits long: records that begin on
/// a page, and a destination that begins 16 bytes behind one (as NumPy's large arrays do), were copied at a third of the speed. Such a copy takes the words
/// of a line or a block from the last to the first.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn meets_itself(from: &[u8], to: &[u8]) -> bool {
    let ahead = to.as_ptr().addr().wrapping_sub(from.as_ptr().addr()) % LOW;
    (1..NEAR).contains(&ahead)
}

/// The places lie on multiples of a line.
#[cfg(target_arch = "x86_64")]
fn stream_lines<const DOWNWARDS: bool>(from: &[u8], to: &mut [u8]) {
    let (lines, rest) = from.as_chunks::<LINE>();
    let (places, rest_places) = to.as_chunks_mut::<LINE>();
    for (line, place) in lines.iter().zip(places) {
        prefetch_once(line, LEAD, 1);
        let pairs = line.as_chunks::<WORD>().0.iter().zip(place.as_chunks_mut::<WORD>().0);
        let stream = |(word, place): (&[u8; WORD], _)| {
            // SAFETY: reads the 16 bytes of `word`, for which this load needs no alignment; `place` lies on a multiple of 16, as its line does.
            unsafe { stream(place, _mm_loadu_si128(word.as_ptr().cast())) };
        };
        if DOWNWARDS { pairs.rev().for_each(stream) } else { pairs.for_each(stream) }
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
pub(crate) mod tests {
    use super::*;

    /// Lets `copy` copy from and to every place of a line, and to every distance at which the order of the words may matter, and looks at what was written.
    pub(crate) fn at_every_distance(copy: impl Fn(&[u8], &mut [u8])) {
        const PAGE: usize = 4096;
        const LONGEST: usize = 911;
        let bytes: Vec<u8> = (0..LONGEST).map(|i| u8::try_from(i % 251 + 1).unwrap()).collect();
        let (mut source, mut target) = (vec![0; 3 * PAGE], vec![0; 3 * PAGE]);
        let page = |memory: &[u8]| memory.as_ptr().align_offset(PAGE);
        let (source_page, target_page) = (page(&source), page(&target));
        let within_lines = (0..64).flat_map(|from| (0..64).map(move |to| (from, to)));
        let apart = (64..300).chain(PAGE - 300..PAGE).map(|to| (0, to));
        for (from, to) in within_lines.chain(apart) {
            for length in [0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 190, 320, 512, LONGEST] {
                let (from, to) = (source_page + from, target_page + to);
                source[from..from + length].copy_from_slice(&bytes[..length]);
                target.fill(0);
                copy(&source[from..from + length], &mut target[to..to + length]);
                let named =
                    format!("{length} bytes, {} behind a page to {}", from - source_page, to - target_page);
                assert!(target[to..to + length] == bytes[..length], "{named}");
                let around = target[..to].iter().chain(&target[to + length..]);
                assert_eq!(around.filter(|&&byte| byte != 0).count(), 0, "{named}: around");
            }
        }
    }

    #[test]
    fn streaming_copies_at_every_distance() {
        at_every_distance(|from, to| {
            copy(from, to, Stores::Streaming);
            finish(Stores::Streaming);
        });
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_copy_meets_itself_where_its_stores_are_just_ahead() {
        #[repr(align(4096))]
        struct Pages([u8; 2 * LOW]);
        let pages = Pages([0; 2 * LOW]);
        let meets = |from: usize, to: usize| meets_itself(&pages.0[from..], &pages.0[to..]);
        assert!(meets(0, 1) && meets(0, NEAR - 1) && meets(100, LOW + 116) && meets(LOW - 8, 8));
        assert!(!meets(0, 0) && !meets(0, LOW) && !meets(16, 0) && !meets(0, NEAR));
    }

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
