//! The read direction: stored bytes to records, in the caller's memory.

use std::mem::MaybeUninit;
use std::sync::Arc;

use super::uninit::as_uninit;
use super::{Codec, CodecError, Dictionary, raw, zstd};

/// Decodes the records of one store, from any number of threads.
pub(crate) struct Decoder(Kind);

enum Kind {
    Raw,
    Zstd,
    ZstdDict(Arc<Dictionary>),
}

impl Decoder {
    /// A dictionary is needed for `ZstdDict`, and for no other codec.
    pub(crate) fn new(codec: Codec, dictionary: Option<Arc<Dictionary>>) -> Result<Self, CodecError> {
        match (codec, dictionary) {
            (Codec::Raw, None) => Ok(Self(Kind::Raw)),
            (Codec::Zstd, None) => Ok(Self(Kind::Zstd)),
            (Codec::ZstdDict, Some(dictionary)) => Ok(Self(Kind::ZstdDict(dictionary))),
            (Codec::ZstdDict, None) => Err(CodecError::MissingDictionary { codec }),
            (Codec::Raw | Codec::Zstd, Some(_)) => Err(CodecError::UnexpectedDictionary { codec }),
        }
    }

    /// Decodes the record that `stored` holds into `dst`. On success every byte of `dst` is initialised; after an error
    /// its content is unspecified. Allocates nothing that depends on `stored`.
    ///
    /// An error if the record is shorter or longer than `dst`, if bytes follow it, or if `stored` is damaged in a way that
    /// zstd notices; the rest is the checksum's part.
    pub(crate) fn decode(&self, stored: &[u8], dst: &mut [MaybeUninit<u8>]) -> Result<(), CodecError> {
        match &self.0 {
            Kind::Raw => raw::decode(stored, dst),
            Kind::Zstd => zstd::decompress(stored, None, dst),
            Kind::ZstdDict(dictionary) => zstd::decompress(stored, Some(dictionary), dst),
        }
    }

    /// [`Decoder::decode`] into memory that is initialised already.
    pub(crate) fn decode_into(&self, stored: &[u8], dst: &mut [u8]) -> Result<(), CodecError> {
        self.decode(stored, as_uninit(dst))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::codec::{Encoder, samples};

    fn pair(codec: Codec, level: Option<i32>) -> (Encoder, Decoder) {
        let dictionary = (codec == Codec::ZstdDict).then(samples::dictionary);
        (Encoder::new(codec, level, dictionary.clone()).unwrap(), Decoder::new(codec, dictionary).unwrap())
    }

    fn check(codec: Codec, record: &[u8]) {
        let (encoder, decoder) = pair(codec, Some(3).filter(|_| codec != Codec::Raw));
        let mut stored = b"before".to_vec();
        let length = encoder.encode(record, &mut stored).unwrap() as usize;
        assert_eq!(stored.len(), 6 + length);
        let decode = |length| samples::decode_with(length, |dst| decoder.decode(&stored[6..], dst));
        assert_eq!(decode(record.len()).unwrap(), record);
        let error = decode(record.len() + 1).unwrap_err();
        assert!(matches!(error, CodecError::WrongLength { .. }), "{error}");
        if let Some(less) = record.len().checked_sub(1) {
            let error = decode(less).unwrap_err();
            assert!(matches!(error, CodecError::WrongLength { .. }), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_was_encoded_is_decoded(record in prop::collection::vec(any::<u8>(), 0..2000), repeat in 1usize..40) {
            for codec in Codec::ALL {
                check(codec, &record.repeat(repeat));
            }
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(stored in prop::collection::vec(any::<u8>(), 0..200), length in 0usize..300) {
            let framed = [&[0x28, 0xB5, 0x2F, 0xFD][..], &stored].concat();
            for codec in [Codec::Zstd, Codec::ZstdDict] {
                let (_, decoder) = pair(codec, None);
                for stored in [&stored, &framed] {
                    if let Ok(record) = samples::decode_with(length, |dst| decoder.decode(stored, dst)) {
                        prop_assert_eq!(record.len(), length);
                    }
                }
            }
        }
    }

    #[test]
    fn an_empty_record_is_a_record() {
        Codec::ALL.into_iter().for_each(|codec| check(codec, b""));
    }

    #[test]
    fn a_record_of_many_blocks_is_a_record() {
        let record = samples::records(5000).concat();
        Codec::ALL.into_iter().for_each(|codec| check(codec, &record));
    }

    #[test]
    fn another_dictionary_is_refused_by_its_id() {
        let (encoder, _) = pair(Codec::ZstdDict, Some(3));
        let mut other = samples::dictionary().bytes().to_vec();
        other[4] ^= 1;
        let other = Arc::new(Dictionary::new(other).unwrap());
        let decoder = Decoder::new(Codec::ZstdDict, Some(Arc::clone(&other))).unwrap();
        let mut stored = Vec::new();
        encoder.encode(b"record", &mut stored).unwrap();
        let error = samples::decode_with(6, |dst| decoder.decode(&stored, dst)).unwrap_err();
        let ids = (samples::dictionary().id(), other.id());
        assert!(
            matches!(error, CodecError::WrongDictionary { found, expected } if (found, expected) == ids),
            "{error}"
        );
    }

    #[test]
    fn many_threads_share_one_decoder() {
        let records = samples::records(64);
        for codec in Codec::ALL {
            let (encoder, decoder) = pair(codec, None);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for record in &records {
                            let mut stored = Vec::new();
                            encoder.encode(record, &mut stored).unwrap();
                            let decoded =
                                samples::decode_with(record.len(), |dst| decoder.decode(&stored, dst));
                            assert_eq!(&decoded.unwrap(), record);
                        }
                    });
                }
            });
        }
    }
}
