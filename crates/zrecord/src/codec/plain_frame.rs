//! Frames of one block that is stored as it is: what zstd makes of records that it can't shorten.
//!
//! Such a frame is its record behind a header. For labels, whose records are a few bytes long, to set libzstd up for it would take ten times as long as to copy it.

use std::mem::MaybeUninit;

use super::uninit;
use super::zstd::MAGIC;

/// The largest block of any frame.
const LARGEST_BLOCK: usize = 1 << 17;
/// zstd doesn't shorten a record of so many bytes at levels up to this one, which take nothing for a match that is so near the end.
const NEVER_SHORTER: usize = 8;
const UP_TO_LEVEL: i32 = 4;
/// A single segment, its size in one byte, no checksum and no dictionary.
const DESCRIPTOR: u8 = 0b0010_0000;

/// Appends the frame that zstd makes of `record`, where that is known beforehand, and returns its length; `None`: nothing was appended.
pub(super) fn encode(record: &[u8], level: i32, out: &mut Vec<u8>) -> Option<usize> {
    let is_known = record.len() <= NEVER_SHORTER && level <= UP_TO_LEVEL;
    let size = u8::try_from(record.len()).ok().filter(|_| is_known)?;
    let before = out.len();
    out.extend(MAGIC);
    out.extend([DESCRIPTOR, size, size << 3 | 1, 0, 0]);
    out.extend(record);
    Some(out.len() - before)
}

/// Decodes `stored` into `dst` if it is exactly one such frame, of as many bytes as `dst` has, for the dictionary of this id (0: for none). `false`:
/// nothing was written, and libzstd knows what it is, or what is wrong with it.
pub(super) fn decode(stored: &[u8], dictionary: u32, dst: &mut [MaybeUninit<u8>]) -> bool {
    content(stored, dictionary, dst.len()).is_some_and(|record| uninit::copy(record, dst))
}

/// RFC 8878, 3.1.1: magic number, descriptor, dictionary id, content size, block header, block.
fn content(stored: &[u8], dictionary: u32, length: usize) -> Option<&[u8]> {
    let (&descriptor, rest) = stored.strip_prefix(&MAGIC)?.split_first()?;
    // Sizes and dictionaries of any width, but no bit that is unused or reserved.
    if descriptor & 0b0011_1100 != DESCRIPTOR {
        return None;
    }
    let (id, rest) = number(rest, (1 << (descriptor & 0b11)) >> 1)?;
    let (size, rest) = number(rest, 1 << (descriptor >> 6))?;
    // Two bytes count from where one byte ends.
    let size = if descriptor >> 6 == 1 { size + 256 } else { size };
    let (block, rest) = number(rest, 3)?;
    let in_block = usize::try_from(block >> 3).ok()?;
    let fits = size == length as u64 && in_block == length && (1..=LARGEST_BLOCK).contains(&length);
    if !fits || id != u64::from(dictionary) {
        return None;
    }
    // The last block, stored as it is, and nothing behind it.
    (block & 0b111 == 0b001 && rest.len() == length).then_some(rest)
}

/// A little-endian number of so many bytes, and what follows it.
fn number(bytes: &[u8], width: usize) -> Option<(u64, &[u8])> {
    let (digits, rest) = bytes.split_at_checked(width)?;
    Some((digits.iter().rev().fold(0, |value, &digit| value << 8 | u64::from(digit)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Codec, Encoder, samples};
    use zstd_safe::DCtx;

    /// Nothing in it repeats.
    fn noise(length: usize) -> Vec<u8> {
        let mut draw = samples::draws(9);
        (0..length).map(|_| draw().to_le_bytes()[3]).collect()
    }

    fn frame(encoder: &Encoder, record: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encoder.encode(record, &mut out).unwrap();
        out
    }

    fn plainly(stored: &[u8], id: u32, length: usize) -> Option<Vec<u8>> {
        let mut done = false;
        let record = samples::decode_with(length, |dst| {
            done = decode(stored, id, dst);
            Ok(())
        });
        done.then(|| record.unwrap())
    }

    /// What libzstd makes of all of `stored`, with the sample dictionary or none.
    fn by_zstd(stored: &[u8], with_dictionary: bool) -> Option<Vec<u8>> {
        let mut record = Vec::with_capacity(LARGEST_BLOCK * 2);
        let dictionary = samples::dictionary();
        let done = if with_dictionary {
            DCtx::create().decompress_using_ddict(&mut record, stored, dictionary.decompressor())
        } else {
            DCtx::create().decompress(&mut record, stored)
        };
        done.is_ok().then_some(record)
    }

    fn encoders() -> [(Encoder, u32); 2] {
        let dictionary = samples::dictionary();
        let id = dictionary.id();
        [
            (Encoder::new(Codec::Zstd, None, None).unwrap(), 0),
            (Encoder::new(Codec::ZstdDict, Some(3), Some(dictionary)).unwrap(), id),
        ]
    }

    #[test]
    fn records_that_do_not_shrink_are_decoded() {
        for (encoder, id) in encoders() {
            for length in [1, 2, 8, 100, 255, 256, 257, 5000, 65_535, 65_791, 65_792, LARGEST_BLOCK] {
                let stored = frame(&encoder, &noise(length));
                assert_eq!(plainly(&stored, id, length), Some(noise(length)), "{length} bytes");
                assert_eq!(plainly(&stored, id ^ 1, length), None, "of another dictionary");
                assert_eq!(plainly(&stored, id, length + 1), None);
                assert_eq!(plainly(&stored, id, length - 1), None);
            }
        }
    }

    #[test]
    fn what_is_encoded_here_is_what_zstd_makes_of_it() {
        let letters = [0, 1, 255];
        for length in 0..=NEVER_SHORTER {
            // All words of three letters.
            for word in 0..3_usize.pow(u32::try_from(length).unwrap()) {
                let record: Vec<u8> = (0..length)
                    .scan(word, |rest, _| Some(letters[std::mem::replace(rest, *rest / 3) % 3]))
                    .collect();
                for level in [-1000, -7, -1, 0, 1, 2, 3, UP_TO_LEVEL] {
                    let mut out = b"before".to_vec();
                    let appended = encode(&record, level, &mut out).unwrap();
                    assert_eq!(out.len(), 6 + appended);
                    let mut by_zstd = Vec::with_capacity(64);
                    zstd_safe::compress(&mut by_zstd, &record, level).unwrap();
                    assert_eq!(out[6..], by_zstd, "{record:?}, level {level}");
                }
            }
        }
        let mut out = Vec::new();
        assert_eq!(encode(&[0; NEVER_SHORTER + 1], 3, &mut out), None);
        assert_eq!(encode(&[0; NEVER_SHORTER], UP_TO_LEVEL + 1, &mut out), None);
        assert!(out.is_empty());
    }

    #[test]
    fn others_are_left_to_zstd() {
        let (encoder, _) = &encoders()[0];
        for record in [b"".to_vec(), vec![7; 5000], samples::records(1).concat(), noise(LARGEST_BLOCK + 1)] {
            assert_eq!(plainly(&frame(encoder, &record), 0, record.len()), None);
        }
        let repeated = [&MAGIC[..], &[DESCRIPTOR, 200, 0x43, 0x06, 0, 9]].concat();
        assert_eq!(by_zstd(&repeated, false), Some(vec![9; 200]));
        assert_eq!(plainly(&repeated, 0, 200), None);
    }

    #[test]
    fn what_is_decoded_here_is_what_zstd_decodes() {
        let mut decoded = 0;
        for (encoder, id) in encoders() {
            for length in [1, 8, 40, 300] {
                let stored = frame(&encoder, &noise(length));
                for place in 0..stored.len().min(24) {
                    for byte in 0..=255 {
                        let mut changed = stored.clone();
                        changed[place] = byte;
                        for length in [length, length.wrapping_add_signed(1), 200, 256] {
                            if let Some(record) = plainly(&changed, id, length) {
                                assert_eq!(
                                    by_zstd(&changed, id != 0),
                                    Some(record),
                                    "byte {place} is {byte}"
                                );
                                decoded += 1;
                            }
                        }
                    }
                }
            }
        }
        assert!(decoded > 1000, "{decoded}");
    }

    #[test]
    fn a_cut_or_longer_frame_is_none() {
        let stored = frame(&encoders()[0].0, &noise(40));
        assert!((0..stored.len()).all(|cut| plainly(&stored[..cut], 0, 40).is_none()));
        assert_eq!(plainly(&[&stored[..], &[0]].concat(), 0, 40), None);
    }
}
