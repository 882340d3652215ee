//! Bytes straight into everything that decodes: format structs, dictionaries, records.

use std::sync::{Arc, LazyLock};

use super::input::Input;
use crate::checksum::crc32c;
use crate::codec::{Codec, Decoder, Dictionary, Encoder};
use crate::format::{Entry, Header, HeaderState, Intent, Shape, Sum, SyncSlot};
use crate::tests::twin::DICT;

/// The longest place that a record is decoded into.
const PLACE: usize = 4 << 20;
const BEYOND: u8 = 0xA5;

static DICTIONARY: LazyLock<Arc<Dictionary>> =
    LazyLock::new(|| Arc::new(Dictionary::new(DICT.clone()).unwrap()));

/// Decode what `data` holds, in the way that its first byte says.
pub fn decode(data: &[u8]) {
    let mut input = Input::new(data);
    match input.below(8) {
        0 => header(&mut input),
        1 => slots(&mut input),
        2 => intent(&mut input),
        3 => rows(&mut input),
        4 => dictionary(&mut input),
        5 => any_record(&mut input),
        6 => changed_frame(&mut input),
        _ => round_trip(&mut input),
    }
}

/// `N` bytes, zeros behind what the input has.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    let length = bytes.len().min(N);
    out[..length].copy_from_slice(&bytes[..length]);
    out
}

/// Make the checksum at the end of `bytes` right.
fn seal(bytes: &mut [u8]) {
    if let Some((body, crc)) = bytes.split_last_chunk_mut::<4>() {
        *crc = crc32c(body).to_le_bytes();
    }
}

fn header(input: &mut Input<'_>) {
    let sealed = input.flag();
    let mut bytes: [u8; Header::SIZE] = array(input.rest());
    if sealed {
        bytes[..5].copy_from_slice(b"ZREC\x03");
        bytes[5] %= 3;
        bytes[22] = 1;
        seal(&mut bytes);
    }
    let decoded = Header::decode(&bytes);
    assert!(!sealed || matches!(decoded, Ok((_, HeaderState::Ours))), "{decoded:?}");
    let Ok((header, state)) = decoded else { return };
    let again = header.encode();
    assert_eq!(Header::decode(&again), Ok((header, HeaderState::Ours)));
    assert_eq!(again[..22], bytes[..22]);
    if state == HeaderState::Ours && bytes[23] == header.flags {
        assert_eq!(again, bytes);
    }
}

fn slots(input: &mut Input<'_>) {
    let sealed = input.u8();
    let mut bytes = input.rest().to_vec();
    for (slot, at) in [0, SyncSlot::STRIDE].into_iter().enumerate() {
        if let Some(bytes) = bytes.get_mut(at..at + SyncSlot::SIZE)
            && sealed >> slot & 1 == 1
        {
            seal(&mut bytes[..Header::SIZE]);
            seal(bytes);
        }
    }
    let decoded = [0, SyncSlot::STRIDE].map(|at| {
        let bytes = bytes.get(at..at + SyncSlot::SIZE)?;
        SyncSlot::decode(&array(bytes)).inspect(|slot| {
            let again = slot.encode();
            assert_eq!(SyncSlot::decode(&again), Some(*slot));
            if bytes[23] == slot.header.flags {
                assert_eq!(again, bytes);
            }
        })
    });
    let newest = SyncSlot::newest(&bytes);
    assert_eq!(newest.is_some(), decoded.iter().any(Option::is_some));
    assert!(newest.is_none() || decoded.contains(&newest));
}

fn intent(input: &mut Input<'_>) {
    let sealed = input.flag();
    let mut bytes = input.rest().to_vec();
    if sealed && bytes.len() >= Intent::FIXED {
        bytes[..4].copy_from_slice(b"ZINT");
        seal(&mut bytes[8..8 + Header::SIZE]);
        seal(&mut bytes);
    }
    let Some(intent) = Intent::decode(&bytes) else { return };
    assert_eq!(Intent::announced(&bytes), Some((intent.header.generation, bytes.len() as u64)));
    let again = intent.encode();
    assert_eq!(again.len(), bytes.len());
    assert_eq!(Intent::decode(&again), Some(intent));
}

fn rows(input: &mut Input<'_>) {
    let entry: [u8; Entry::SIZE] = array(input.take(Entry::SIZE));
    let decoded = Entry::decode(&entry);
    assert_eq!(decoded.encode(), entry);
    assert!(decoded.end() >= decoded.offset.into());
    let sum: [u8; Sum::SIZE] = array(input.take(Sum::SIZE));
    assert_eq!(Sum::decode(&sum).encode(), sum);
    let bytes: [u8; Shape::SIZE] = array(input.take(Shape::SIZE));
    let shape = Shape::decode(&bytes);
    assert_eq!(shape.encode(), bytes);
    assert_eq!(shape.is_plain(), bytes.iter().all(|&b| b == 0));
    let sum = Sum::of(input.rest(), &decoded);
    assert_eq!(sum.with_shape(&shape).with_shape(&shape), sum);
}

/// A dictionary that is a changed one, or anything: refused, or it does what a dictionary does.
fn dictionary(input: &mut Input<'_>) {
    let bytes = if input.flag() { changed(DICT.clone(), input) } else { input.take(4096).to_vec() };
    let record = input.rest();
    let Ok(dictionary) = Dictionary::new(bytes.clone()) else { return };
    assert_eq!(dictionary.bytes(), bytes);
    let dictionary = Arc::new(dictionary);
    let decoder = Decoder::new(Codec::ZstdDict, Some(dictionary.clone())).unwrap();
    let _ = decode_within(&decoder, record, record.len());
    let encoder = Encoder::new(Codec::ZstdDict, Some(1), Some(dictionary)).unwrap();
    let mut stored = Vec::new();
    if encoder.encode(record, &mut stored).is_ok() {
        assert_eq!(decode_within(&decoder, &stored, record.len()).as_deref(), Some(record));
    }
}

/// Flip and cut bytes as the input says.
fn changed(mut bytes: Vec<u8>, input: &mut Input<'_>) -> Vec<u8> {
    for _ in 0..input.below(8) {
        let (what, at) = (input.u8(), input.u16().into());
        match what % 8 {
            0 => bytes.truncate(at),
            1 => bytes.extend_from_slice(input.take(at % 16)),
            _ if bytes.is_empty() => {}
            _ => {
                let at = at % bytes.len();
                bytes[at] ^= input.u8();
            }
        }
    }
    bytes
}

fn codecs(codec: Codec, level: i32) -> (Encoder, Decoder) {
    let dictionary = (codec == Codec::ZstdDict).then(|| DICTIONARY.clone());
    let level = (codec != Codec::Raw).then_some(level);
    (Encoder::new(codec, level, dictionary.clone()).unwrap(), Decoder::new(codec, dictionary).unwrap())
}

/// The record, if there is one of `length` bytes; nothing is written behind it.
fn decode_within(decoder: &Decoder, stored: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut place = vec![BEYOND; length + 16];
    let outcome = decoder.decode_into(stored, &mut place[..length]);
    assert!(place[length..].iter().all(|&b| b == BEYOND), "written behind the place");
    place.truncate(length);
    outcome.ok().map(|()| place)
}

/// Any bytes as a stored record, behind zstd's magic number or not, into a place of any length.
fn any_record(input: &mut Input<'_>) {
    let codec = Codec::ALL[input.below(3)];
    let framed = input.flag();
    let length = (input.u32() as usize % (PLACE + 1)) >> input.below(24);
    let magic: &[u8] = if framed { &[0x28, 0xB5, 0x2F, 0xFD] } else { &[] };
    let stored = [magic, input.rest()].concat();
    let (_, decoder) = codecs(codec, 1);
    let decoded = decode_within(&decoder, &stored, length);
    assert!(codec != Codec::Raw || decoded.is_none_or(|record| record == stored));
}

/// A frame of ours, changed.
fn changed_frame(input: &mut Input<'_>) {
    let (encoder, decoder) = codecs(Codec::ALL[1 + input.below(2)], i32::from(input.u8() % 9) - 2);
    let length = usize::from(input.u8()) * 4;
    let record = input.take(length);
    let repeated = record.repeat(1 + input.below(40));
    let mut frame = Vec::new();
    encoder.encode(&repeated, &mut frame).unwrap();
    let stored = changed(frame.clone(), input);
    let other = input.u16().into();
    for length in [repeated.len(), other] {
        let decoded = decode_within(&decoder, &stored, length);
        assert!(stored != frame || decoded.as_ref() == (length == repeated.len()).then_some(&repeated));
    }
}

fn round_trip(input: &mut Input<'_>) {
    let (encoder, decoder) = codecs(Codec::ALL[input.below(3)], i32::from(input.u8() % 15) - 5);
    let (times, record) = (1 + input.below(64), input.rest());
    let record = record.repeat(times);
    let mut stored = b"before".to_vec();
    let length = encoder.encode(&record, &mut stored).unwrap() as usize;
    assert_eq!((stored.len(), &stored[..6]), (6 + length, b"before".as_slice()));
    assert_eq!(decode_within(&decoder, &stored[6..], record.len()), Some(record));
}
