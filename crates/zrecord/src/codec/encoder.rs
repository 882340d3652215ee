//! The write direction: records to stored bytes.

use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use zstd_safe::CDict;

use super::{Codec, CodecError, Dictionary, raw, zstd};
use crate::format::MAX_RECORD_LEN;

/// Encodes the records of one store, from any number of threads.
pub(crate) struct Encoder(Kind);

enum Kind {
    Raw,
    Zstd { level: i32, matches: Matches },
    ZstdDict { level: i32, dictionary: Arc<Dictionary>, compressor: OnceLock<Arc<CDict<'static>>> },
}

/// What repeats within a record is stored once: which repetitions are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Matches {
    /// Those that the level looks for.
    OfLevel,
    /// Long ones alone. That takes less time, to write and to read, and where short ones are but chance it takes fewer bytes.
    Long,
}

/// Levels 1 to 4 of zstd weigh time against bytes, and look for matches in one or two tables. Those above want the fewest bytes, those below
/// the least time: they are taken at their word.
const LEVELS_OF_TABLES: RangeInclusive<i32> = 1..=4;

impl Encoder {
    /// `level` is the codec's default if `None`. A dictionary is needed for `ZstdDict`, and for no other codec. Digesting
    /// it waits for the first record.
    pub(crate) fn new(
        codec: Codec,
        level: Option<i32>,
        dictionary: Option<Arc<Dictionary>>,
    ) -> Result<Self, CodecError> {
        let level = codec.check_level(level)?.unwrap_or_default();
        match (codec, dictionary) {
            (Codec::Raw, None) => Ok(Self(Kind::Raw)),
            (Codec::Zstd, None) => Ok(Self(Kind::Zstd { level, matches: Matches::OfLevel })),
            (Codec::ZstdDict, Some(dictionary)) => {
                Ok(Self(Kind::ZstdDict { level, dictionary, compressor: OnceLock::new() }))
            }
            (Codec::ZstdDict, None) => Err(CodecError::MissingDictionary { codec }),
            (Codec::Raw | Codec::Zstd, Some(_)) => Err(CodecError::UnexpectedDictionary { codec }),
        }
    }

    /// The codec that it encodes for.
    pub(crate) fn codec(&self) -> Codec {
        match self.0 {
            Kind::Raw => Codec::Raw,
            Kind::Zstd { .. } => Codec::Zstd,
            Kind::ZstdDict { .. } => Codec::ZstdDict,
        }
    }

    /// The same encoder, but it looks for long matches alone; `None` where there is no choice: nothing is matched, or nothing else is asked for.
    pub(crate) fn with_long_matches(&self) -> Option<Self> {
        match self.0 {
            Kind::Zstd { level, .. } if LEVELS_OF_TABLES.contains(&level) => {
                Some(Self(Kind::Zstd { level, matches: Matches::Long }))
            }
            _ => None,
        }
    }

    /// Make room behind `out` for records of these lengths, whatever becomes of them.
    pub(crate) fn reserve(
        &self,
        lengths: impl Iterator<Item = usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let needed: usize = match self.0 {
            Kind::Raw => lengths.sum(),
            Kind::Zstd { .. } | Kind::ZstdDict { .. } => lengths.map(zstd::bound).sum(),
        };
        out.try_reserve(needed).map_err(|_| CodecError::OutOfMemory { purpose: "encoded records" })
    }

    /// Appends the stored form of `record` to `out` and returns its length in bytes. An error leaves `out` as it was.
    pub(crate) fn encode(&self, record: &[u8], out: &mut Vec<u8>) -> Result<u32, CodecError> {
        let too_long = CodecError::RecordTooLong { found: record.len(), limit: MAX_RECORD_LEN };
        if record.len() as u64 > MAX_RECORD_LEN {
            return Err(too_long);
        }
        let length = match &self.0 {
            Kind::Raw => raw::encode(record, out)?,
            Kind::Zstd { level, matches: Matches::OfLevel } => zstd::compress(record, *level, out)?,
            Kind::Zstd { level, matches: Matches::Long } => zstd::compress_long(record, *level, out)?,
            Kind::ZstdDict { level, dictionary, compressor } => {
                let compressor = match compressor.get() {
                    Some(compressor) => compressor,
                    None => {
                        let made = dictionary.compressor(*level)?;
                        compressor.get_or_init(|| made)
                    }
                };
                zstd::compress_with(record, compressor, out)?
            }
        };
        // A frame of 2^31 bytes is longer than its record by at most one byte in 256.
        u32::try_from(length).map_err(|_| too_long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::samples;

    #[test]
    fn a_dictionary_goes_with_its_codec_only() {
        let dictionary = Some(samples::dictionary());
        for codec in [Codec::Raw, Codec::Zstd] {
            let error = Encoder::new(codec, None, dictionary.clone()).err().unwrap();
            assert!(matches!(error, CodecError::UnexpectedDictionary { .. }), "{error}");
        }
        let error = Encoder::new(Codec::ZstdDict, None, None).err().unwrap();
        assert!(matches!(error, CodecError::MissingDictionary { .. }), "{error}");
        assert!(Encoder::new(Codec::ZstdDict, None, dictionary).is_ok());
    }

    #[test]
    fn a_level_out_of_range_is_refused() {
        assert!(Encoder::new(Codec::Zstd, Some(23), None).is_err());
        assert!(Encoder::new(Codec::Raw, Some(3), None).is_err());
    }

    #[test]
    fn a_frame_may_be_larger_than_its_record() {
        let mut out = Vec::new();
        let encoder = Encoder::new(Codec::Zstd, None, None).unwrap();
        assert!(encoder.encode(b"x", &mut out).unwrap() > 1);
        assert!(encoder.encode(b"", &mut out).unwrap() > 0);
    }

    #[test]
    fn a_higher_level_stores_less() {
        let record = samples::records(400).concat();
        let length = |level| {
            let encoder = Encoder::new(Codec::Zstd, Some(level), None).unwrap();
            encoder.encode(&record, &mut Vec::new()).unwrap()
        };
        assert!(length(19) < length(1));
    }

    #[test]
    fn a_dictionary_stores_small_records_in_less() {
        let records = samples::records(200);
        let total = |encoder: &Encoder| {
            let mut out = Vec::new();
            for record in &records {
                encoder.encode(record, &mut out).unwrap();
            }
            out.len()
        };
        let plain = total(&Encoder::new(Codec::Zstd, Some(19), None).unwrap());
        let with = total(&Encoder::new(Codec::ZstdDict, Some(19), Some(samples::dictionary())).unwrap());
        assert!(with * 2 < plain, "{with} bytes with the dictionary, {plain} without");
    }
}
