//! One record, one zstd frame. A thread keeps one context for each direction and uses it again.
//!
//! Frames carry their content size and no checksum of zstd's own: the store sums the stored bytes.

use std::cell::RefCell;
use std::io::Cursor;
use std::mem::MaybeUninit;

use zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd_safe::{CCtx, CDict, CParameter, DCtx, SafeResult, Strategy};

use super::uninit::Uninit;
use super::{CodecError, Dictionary, plain_frame};

/// The four bytes that each frame begins with. Skippable and legacy frames begin otherwise and are no records.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// The longest that zstd can be told not to go below.
const LONG_MATCH: u32 = 7;

thread_local! {
    static COMPRESSOR: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    /// The level that it is set to, and a context that looks for long matches alone.
    static LONG_COMPRESSOR: RefCell<Option<(i32, CCtx<'static>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// The longest frame of a record of `length` bytes.
pub(super) fn bound(length: usize) -> usize {
    zstd_safe::compress_bound(length)
}

/// Appends the frame of `record` to `out`.
pub(super) fn compress(record: &[u8], level: i32, out: &mut Vec<u8>) -> Result<usize, CodecError> {
    if let Some(length) = plain_frame::encode(record, level, out) {
        return Ok(length);
    }
    append(record, out, |frame| {
        COMPRESSOR.with_borrow_mut(|slot| run(compressor(slot)?.compress(frame, record, level)))
    })
}

/// Appends a frame of `record` to `out` for which matches were looked up by seven bytes, in one table. (What repeats at the last match's distance
/// is still taken from four bytes on.) What else makes the level, the window before all, is as it was.
pub(super) fn compress_long(record: &[u8], level: i32, out: &mut Vec<u8>) -> Result<usize, CodecError> {
    append(record, out, |frame| {
        LONG_COMPRESSOR.with_borrow_mut(|slot| {
            let (set_to, context) = match slot {
                Some(kept) => kept,
                None => slot.insert((level, long_compressor(level)?)),
            };
            if *set_to != level {
                run(context.set_parameter(CParameter::CompressionLevel(level)))?;
                *set_to = level;
            }
            run(context.compress2(frame, record))
        })
    })
}

/// Appends the frame of `record` to `out`. The level is the dictionary's.
pub(super) fn compress_with(
    record: &[u8],
    dictionary: &CDict<'_>,
    out: &mut Vec<u8>,
) -> Result<usize, CodecError> {
    append(record, out, |frame| {
        COMPRESSOR
            .with_borrow_mut(|slot| run(compressor(slot)?.compress_using_cdict(frame, record, dictionary)))
    })
}

fn new_compressor() -> Result<CCtx<'static>, CodecError> {
    CCtx::try_create().ok_or(CodecError::OutOfMemory { purpose: "a zstd compression context" })
}

fn compressor<'a>(slot: &'a mut Option<CCtx<'static>>) -> Result<&'a mut CCtx<'static>, CodecError> {
    Ok(match slot {
        Some(context) => context,
        None => slot.insert(new_compressor()?),
    })
}

fn long_compressor(level: i32) -> Result<CCtx<'static>, CodecError> {
    let mut context = new_compressor()?;
    for parameter in [
        CParameter::CompressionLevel(level),
        CParameter::Strategy(Strategy::ZSTD_fast),
        CParameter::MinMatch(LONG_MATCH),
    ] {
        run(context.set_parameter(parameter))?;
    }
    Ok(context)
}

fn run(result: SafeResult) -> Result<usize, CodecError> {
    result.map_err(|code| CodecError::Compress { reason: zstd_safe::get_error_name(code) })
}

fn append(
    record: &[u8],
    out: &mut Vec<u8>,
    compress: impl FnOnce(&mut Cursor<&mut Vec<u8>>) -> Result<usize, CodecError>,
) -> Result<usize, CodecError> {
    out.try_reserve(bound(record.len())).map_err(|_| CodecError::OutOfMemory { purpose: "a zstd frame" })?;
    let end = out.len() as u64;
    // A cursor at the end of a vector writes into the spare capacity, and an error leaves the length as it was.
    let mut frame = Cursor::new(out);
    frame.set_position(end);
    compress(&mut frame)
}

/// Decodes the one frame that `stored` consists of into `dst`, which it fills. After an error the content of `dst` is
/// unspecified. Allocates nothing but the thread's context, whose size does not depend on the frame.
pub(super) fn decompress(
    stored: &[u8],
    dictionary: Option<&Dictionary>,
    dst: &mut [MaybeUninit<u8>],
) -> Result<(), CodecError> {
    if plain_frame::decode(stored, dictionary.map_or(0, Dictionary::id), dst) {
        return Ok(());
    }
    let expected = dst.len();
    check_frame(stored, expected)?;
    let result = DECOMPRESSOR.with_borrow_mut(|slot| {
        let context = match slot {
            Some(context) => context,
            None => {
                let fresh = DCtx::try_create();
                slot.insert(fresh.ok_or(CodecError::OutOfMemory { purpose: "a zstd decompression context" })?)
            }
        };
        let mut dst = Uninit::new(dst);
        Ok(match dictionary {
            Some(dictionary) => context.decompress_using_ddict(&mut dst, stored, dictionary.decompressor()),
            None => context.decompress(&mut dst, stored),
        })
    })?;
    match result {
        Ok(found) if found == expected => Ok(()),
        Ok(found) => Err(CodecError::WrongLength { found: found as u64, expected }),
        Err(code) => Err(explain(code, stored, dictionary, expected)),
    }
}

/// `stored` is exactly one frame, and if it states its content size, that is `expected`.
fn check_frame(stored: &[u8], expected: usize) -> Result<(), CodecError> {
    if !stored.starts_with(&MAGIC) {
        return Err(CodecError::Damaged { reason: "it does not begin with zstd's magic number" });
    }
    let frame = zstd_safe::find_frame_compressed_size(stored)
        .map_err(|code| CodecError::Damaged { reason: zstd_safe::get_error_name(code) })?;
    if frame != stored.len() {
        return Err(CodecError::TrailingBytes { frame, found: stored.len() });
    }
    match zstd_safe::get_frame_content_size(stored) {
        Ok(Some(found)) if found != expected as u64 => Err(CodecError::WrongLength { found, expected }),
        Ok(_) => Ok(()),
        Err(_) => Err(CodecError::Damaged { reason: "its header can't be read" }),
    }
}

#[cold]
fn explain(code: usize, stored: &[u8], dictionary: Option<&Dictionary>, expected: usize) -> CodecError {
    if zstd_safe::is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_dictionary_wrong) {
        let found = zstd_safe::get_dict_id_from_frame(stored).map_or(0, u32::from);
        CodecError::WrongDictionary { found, expected: dictionary.map_or(0, Dictionary::id) }
    } else if zstd_safe::is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) {
        CodecError::TooLong { expected }
    } else {
        CodecError::Damaged { reason: zstd_safe::get_error_name(code) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::samples;

    fn frame(record: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let length = compress(record, 3, &mut out).unwrap();
        assert_eq!(length, out.len());
        out
    }

    fn decode(stored: &[u8], length: usize) -> Result<Vec<u8>, CodecError> {
        samples::decode_with(length, |dst| decompress(stored, None, dst))
    }

    /// A frame without content size: magic, descriptor, window, one last raw block.
    fn unsized_frame(window: u8, content: &[u8]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend([0x00, window]);
        let block = u32::try_from(content.len()).unwrap() << 3 | 1;
        out.extend(&block.to_le_bytes()[..3]);
        out.extend(content);
        out
    }

    #[test]
    fn a_frame_states_its_content_size_and_has_no_checksum() {
        let records = samples::records(3000);
        for record in [b"".to_vec(), records[0].clone(), records.concat()] {
            for level in [3, 1, 4, 3] {
                let mut long = Vec::new();
                compress_long(&record, level, &mut long).unwrap();
                for stored in [frame(&record), long] {
                    let found = zstd_safe::get_frame_content_size(&stored).unwrap();
                    assert_eq!(found, Some(record.len() as u64));
                    assert_eq!(stored[4] & 0b100, 0, "checksum flag");
                    assert_eq!(decode(&stored, record.len()).unwrap(), record);
                }
            }
        }
    }

    #[test]
    fn long_matches_are_found_and_short_ones_are_not_looked_for() {
        let record = samples::records(40).concat();
        let long = |record: &[u8]| compress_long(record, 3, &mut Vec::new()).unwrap();
        assert!(long(&record) < long(&record[..record.len() / 2]) * 2);
        assert!(frame(&record).len() < long(&record));
        // As far back as the level looks.
        let mut apart = record.clone();
        apart.extend(std::iter::repeat_n(7, 1 << 20));
        let once = long(&apart);
        apart.extend(&record);
        assert!(long(&apart) < once + record.len() / 8);
    }

    #[test]
    fn a_frame_is_appended_behind_what_is_there() {
        let mut out = b"before".to_vec();
        let length = compress(b"record", 3, &mut out).unwrap();
        assert_eq!(out.len(), 6 + length);
        assert_eq!(&out[..6], b"before");
        assert_eq!(decode(&out[6..], 6).unwrap(), b"record");
    }

    #[test]
    fn another_content_size_is_refused_before_decoding() {
        for expected in [0, 5, 7, 1 << 40] {
            let error = check_frame(&frame(b"record"), expected).unwrap_err();
            assert!(matches!(error, CodecError::WrongLength { found: 6, .. }), "{error}");
        }
    }

    #[test]
    fn a_frame_without_content_size_must_fill_the_destination() {
        let stored = unsized_frame(0x00, b"abc");
        assert_eq!(decode(&stored, 3).unwrap(), b"abc");
        let error = decode(&stored, 4).unwrap_err();
        assert!(matches!(error, CodecError::WrongLength { found: 3, expected: 4 }), "{error}");
        let error = decode(&stored, 2).unwrap_err();
        assert!(matches!(error, CodecError::TooLong { expected: 2 }), "{error}");
    }

    #[test]
    fn a_huge_window_takes_no_memory() {
        let warm = samples::records(4).concat();
        assert_eq!(decode(&frame(&warm), warm.len()).unwrap(), warm);
        let size = || DECOMPRESSOR.with_borrow(|slot| slot.as_ref().unwrap().sizeof());
        let before = size();
        let stored = unsized_frame(0xA8, b"abc");
        assert_eq!(decode(&stored, 3).unwrap(), b"abc");
        assert_eq!(size(), before);
        let error = decode(&unsized_frame(0xFF, b"abc"), 3).unwrap_err();
        assert!(matches!(error, CodecError::Damaged { .. }), "{error}");
    }

    #[test]
    fn what_follows_the_frame_is_refused() {
        let stored = frame(b"record");
        let skippable = [0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0];
        for tail in [&[0u8][..], &skippable, &frame(b"")] {
            let longer = [stored.as_slice(), tail].concat();
            let error = decode(&longer, 6).unwrap_err();
            assert!(matches!(error, CodecError::TrailingBytes { .. }), "{error}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let skippable = [0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0];
        for stored in [&b""[..], b"(", b"not a frame", &MAGIC, &skippable] {
            let error = decode(stored, 0).unwrap_err();
            assert!(matches!(error, CodecError::Damaged { .. }), "{error}");
        }
    }

    #[test]
    fn each_cut_of_a_frame_is_refused() {
        let record = samples::records(4).concat();
        let stored = frame(&record);
        for cut in 0..stored.len() {
            assert!(decode(&stored[..cut], record.len()).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn each_changed_bit_is_an_error_or_fills_the_destination() {
        let record = samples::records(2).concat();
        let stored = frame(&record);
        for bit in 0..stored.len() * 8 {
            let mut changed = stored.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            if let Ok(decoded) = decode(&changed, record.len()) {
                assert_eq!(decoded.len(), record.len());
            }
        }
        assert_eq!(decode(&stored, record.len()).unwrap(), record, "the context still works");
    }

    #[test]
    fn a_frame_for_a_dictionary_needs_it() {
        let dictionary = samples::dictionary();
        let mut stored = Vec::new();
        compress_with(b"record", &dictionary.compressor(3).unwrap(), &mut stored).unwrap();
        let error = decode(&stored, 6).unwrap_err();
        let id = dictionary.id();
        assert!(
            matches!(error, CodecError::WrongDictionary { found, expected: 0 } if found == id),
            "{error}"
        );
    }
}
