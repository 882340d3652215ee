//! Records for the tests of this folder: small and alike, as dictionaries want them.

use std::mem::MaybeUninit;
use std::sync::{Arc, LazyLock};

use super::{CodecError, Dictionary, build_dict};

/// Numbers of 32 bits, the same for each seed (xorshift64*, Vigna 2016).
pub(crate) fn draws(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed | 1;
    move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32
    }
}

/// `count` records of about 180 bytes.
pub(super) fn records(count: u64) -> Vec<Vec<u8>> {
    let words = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"];
    let mut draw = draws(1);
    let mut record = |number| {
        let mut word = || words[(draw() % 8) as usize];
        let name = [word(), word()].join("-");
        let tags = [word(), word(), word()];
        let value = draw();
        format!(
            "{{\"type\":\"measurement\",\"number\":{number},\"name\":\"{name}\",\"unit\":\"metres a second\",\
             \"value\":{value},\"tags\":{tags:?},\"source\":\"https://example.org/stations/{name}\"}}"
        )
        .into_bytes()
    };
    (0..count).map(&mut record).collect()
}

/// A dictionary for such records.
pub(super) fn dictionary() -> Arc<Dictionary> {
    static DICTIONARY: LazyLock<Arc<Dictionary>> = LazyLock::new(|| {
        let records = records(1000);
        let sizes: Vec<u64> = records.iter().map(|record| record.len() as u64).collect();
        let bytes = build_dict(&records.concat(), &sizes, 4096).unwrap();
        Arc::new(Dictionary::new(bytes).unwrap())
    });
    Arc::clone(&DICTIONARY)
}

/// Decodes `length` bytes into memory filled with a pattern, with a margin behind that must not change.
pub(super) fn decode_with(
    length: usize,
    decode: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<(), CodecError>,
) -> Result<Vec<u8>, CodecError> {
    let mut memory: Vec<u8> = vec![0xA5; length + 64];
    let mut uninit: Vec<MaybeUninit<u8>> = memory.iter().map(|byte| MaybeUninit::new(*byte)).collect();
    let result = decode(&mut uninit[..length]);
    for (byte, decoded) in memory.iter_mut().zip(&uninit) {
        // SAFETY: every byte was initialised above, and decoding writes bytes only.
        *byte = unsafe { decoded.assume_init() };
    }
    assert!(memory[length..].iter().all(|byte| *byte == 0xA5), "written past the destination");
    memory.truncate(length);
    result.map(|()| memory)
}
