//! Records that lie in another container than a store: from memory to memory.

use std::ops::Range;
use std::sync::Arc;

use super::{Codec, CodecError, Decoder, Dictionary};
use crate::error::{Error, Result};

/// Decodes records as stores decode theirs, wherever they lie. From any number of threads.
pub struct Frames(Decoder);

/// Where records are to be decoded from and to, all in bytes. Record i lies from `starts[i]` to `ends[i]`, and goes to what is
/// between `offsets[i]` and `offsets[i + 1]`.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    /// Where each begins.
    pub starts: &'a [u64],
    /// Where each ends.
    pub ends: &'a [u64],
    /// Where each goes, and the end of the last one.
    pub offsets: &'a [u64],
}

impl Frames {
    /// A dictionary is needed for [`Codec::ZstdDict`], and for no other codec.
    ///
    /// # Errors
    /// If it isn't there, is there in vain, or is no trained dictionary.
    pub fn new(codec: Codec, dictionary: Option<&[u8]>) -> Result<Self> {
        let dictionary = dictionary.map(|bytes| Dictionary::new(bytes.to_vec())).transpose()?;
        Ok(Self(Decoder::new(codec, dictionary.map(Arc::new))?))
    }

    /// Decodes records of `src` into `dst`, one after another; the first is called `first` in errors. After an error the content of
    /// `dst` is unspecified.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for places that don't lie in `src` and `dst`, [`CodecError::InRecord`] for a record that doesn't decode
    /// to just so many bytes.
    pub fn decode(&self, src: &[u8], places: Places<'_>, dst: &mut [u8], first: u64) -> Result<()> {
        let Places { starts, ends, offsets } = places;
        if starts.len() != ends.len() || offsets.len() != starts.len() + 1 {
            return Err(Error::InvalidArgument(format!(
                "expected as many starts as ends, and an offset more, found {}, {} and {}",
                starts.len(),
                ends.len(),
                offsets.len()
            )));
        }
        let targets = offsets.iter().zip(offsets.iter().skip(1));
        for (((&start, &end), (&begin, &stop)), record) in starts.iter().zip(ends).zip(targets).zip(first..) {
            let stored = range(start, end).and_then(|range| src.get(range));
            let target = range(begin, stop).and_then(|range| dst.get_mut(range));
            let (Some(stored), Some(target)) = (stored, target) else {
                return Err(Error::InvalidArgument(format!(
                    "record {record}: expected bytes within {} from and {} to, found {start} to {end} and {begin} to {stop}",
                    src.len(),
                    dst.len()
                )));
            };
            let named = |source| CodecError::InRecord { record, source: Box::new(source) };
            self.0.decode_into(stored, target).map_err(named)?;
        }
        Ok(())
    }
}

fn range(start: u64, end: u64) -> Option<Range<usize>> {
    Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Encoder, samples};

    /// Records as frames, the last one first and with a gap between, and their places.
    fn stored(codec: Codec, records: &[Vec<u8>]) -> (Frames, Vec<u8>, [Vec<u64>; 3]) {
        let dictionary = (codec == Codec::ZstdDict).then(samples::dictionary);
        let frames = Frames::new(codec, dictionary.as_ref().map(|one| one.bytes())).unwrap();
        let encoder = Encoder::new(codec, None, dictionary).unwrap();
        let (mut src, mut starts, mut ends) = (Vec::new(), Vec::new(), Vec::new());
        for record in records.iter().rev() {
            src.push(0xEE);
            starts.insert(0, src.len() as u64);
            encoder.encode(record, &mut src).unwrap();
            ends.insert(0, src.len() as u64);
        }
        let mut offsets = vec![0];
        offsets.extend(records.iter().scan(0, |end, record| {
            *end += record.len() as u64;
            Some(*end)
        }));
        (frames, src, [starts, ends, offsets])
    }

    fn decode(
        frames: &Frames,
        src: &[u8],
        [starts, ends, offsets]: &[Vec<u64>; 3],
        length: usize,
    ) -> Result<Vec<u8>> {
        let mut dst = vec![0xA5; length];
        frames.decode(src, Places { starts, ends, offsets }, &mut dst, 7)?;
        Ok(dst)
    }

    #[test]
    fn records_come_from_wherever_they_lie() {
        let mut records = samples::records(20);
        records.insert(3, Vec::new());
        let all = records.concat();
        for codec in Codec::ALL {
            let (frames, src, places) = stored(codec, &records);
            assert_eq!(decode(&frames, &src, &places, all.len()).unwrap(), all);
        }
    }

    #[test]
    fn the_record_that_does_not_decode_is_named() {
        let records = samples::records(5);
        let length = records.concat().len();
        for codec in Codec::ALL {
            let (frames, src, mut places) = stored(codec, &records);
            places[1][2] -= 1;
            let error = decode(&frames, &src, &places, length).unwrap_err();
            assert!(matches!(error, Error::Codec(CodecError::InRecord { record: 9, .. })), "{error}");
        }
    }

    #[test]
    fn places_outside_are_refused() {
        let records = samples::records(3);
        let length = records.concat().len();
        let (frames, src, places) = stored(Codec::Raw, &records);
        for (which, at, value) in [
            (0, 1, u64::MAX),
            (1, 0, src.len() as u64 + 1),
            (1, 2, 0),
            (2, 3, length as u64 + 1),
            (2, 1, u64::MAX),
        ] {
            let mut wrong = places.clone();
            wrong[which][at] = value;
            let error = decode(&frames, &src, &wrong, length).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument(_)), "{which} {at}: {error}");
        }
        for which in 0..3 {
            let mut wrong = places.clone();
            wrong[which].pop();
            assert!(matches!(decode(&frames, &src, &wrong, length), Err(Error::InvalidArgument(_))));
        }
    }

    #[test]
    fn a_dictionary_belongs_to_its_codec() {
        let dictionary = samples::dictionary();
        assert!(Frames::new(Codec::ZstdDict, None).is_err());
        assert!(Frames::new(Codec::Zstd, Some(dictionary.bytes())).is_err());
        assert!(Frames::new(Codec::ZstdDict, Some(b"none")).is_err());
    }
}
