//! A store's dictionary, digested once and shared by all threads.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use zstd_safe::{CDict, DDict};

use super::CodecError;

/// A trained zstd dictionary. Reading needs one digest of it, made at once; writing needs one a level, made when it is
/// first asked for, because at high levels that takes long and most users only read.
pub(crate) struct Dictionary {
    bytes: Vec<u8>,
    id: NonZeroU32,
    decompressor: DDict<'static>,
    compressors: Mutex<Vec<(i32, Arc<CDict<'static>>)>>,
}

impl Dictionary {
    /// Takes trained dictionaries only: they begin with a magic number and an id. The frames name that id, so decoding
    /// with another dictionary is an error and not a wrong record.
    pub(crate) fn new(bytes: Vec<u8>) -> Result<Self, CodecError> {
        let id = zstd_safe::get_dict_id_from_dict(&bytes)
            .ok_or(CodecError::NotADictionary { bytes: bytes.len() })?;
        let decompressor =
            DDict::try_create(&bytes).ok_or(CodecError::UnusableDictionary { bytes: bytes.len() })?;
        Ok(Self { bytes, id, decompressor, compressors: Mutex::new(Vec::new()) })
    }

    /// The dictionary as it is stored.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The id that frames refer to, never 0.
    pub(crate) fn id(&self) -> u32 {
        self.id.get()
    }

    pub(super) fn decompressor(&self) -> &DDict<'static> {
        &self.decompressor
    }

    /// The digest for writing at `level`. Whoever asks while it is made waits for it.
    pub(super) fn compressor(&self, level: i32) -> Result<Arc<CDict<'static>>, CodecError> {
        let mut made = self.compressors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, compressor)) = made.iter().find(|(known, _)| *known == level) {
            return Ok(Arc::clone(compressor));
        }
        let fresh = CDict::try_create(&self.bytes, level)
            .ok_or(CodecError::UnusableDictionary { bytes: self.bytes.len() })?;
        let fresh = Arc::new(fresh);
        made.push((level, Arc::clone(&fresh)));
        Ok(fresh)
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary").field("id", &self.id).field("bytes", &self.bytes.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::samples;

    #[test]
    fn a_trained_dictionary_keeps_its_bytes_and_id() {
        let bytes = samples::dictionary().bytes().to_vec();
        let dictionary = Dictionary::new(bytes.clone()).unwrap();
        assert_eq!(dictionary.bytes(), bytes);
        assert_eq!(dictionary.id().to_le_bytes(), bytes[4..8]);
    }

    #[test]
    fn other_bytes_are_no_dictionary() {
        for bytes in
            [&b""[..], b"any text that happens to be long enough", &[0x37, 0xA4, 0x30, 0xEC, 0, 0, 0, 0]]
        {
            let error = Dictionary::new(bytes.to_vec()).unwrap_err();
            assert!(matches!(error, CodecError::NotADictionary { .. }), "{error}");
        }
    }

    #[test]
    fn a_cut_dictionary_is_unusable() {
        let bytes = samples::dictionary().bytes()[..40].to_vec();
        let error = Dictionary::new(bytes).unwrap_err();
        assert!(matches!(error, CodecError::UnusableDictionary { bytes: 40 }), "{error}");
    }

    #[test]
    fn a_level_is_digested_once_and_only_when_asked_for() {
        let dictionary = Dictionary::new(samples::dictionary().bytes().to_vec()).unwrap();
        let made = || dictionary.compressors.lock().unwrap().len();
        assert_eq!(made(), 0);
        let first = dictionary.compressor(3).unwrap();
        assert!(Arc::ptr_eq(&first, &dictionary.compressor(3).unwrap()));
        assert_eq!(made(), 1);
        assert!(!Arc::ptr_eq(&first, &dictionary.compressor(19).unwrap()));
        assert_eq!(made(), 2);
    }
}
