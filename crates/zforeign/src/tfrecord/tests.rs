#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of tests are small"
)]

use proptest::prelude::*;

use crate::Error;
use crate::tfrecord::framing::masked;
use crate::tfrecord::{Column, Kind, Values, columns, scan, walk};

fn frame(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let sums = [&length[..], data].map(|bytes| masked(zrecord::crc32c(bytes)).to_le_bytes());
    [&length[..], &sums[0], data, &sums[1]].concat()
}

/// A field of bytes.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    put_varint(&mut out, content.len() as u64);
    out.extend_from_slice(content);
    out
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A list with its values packed, or each by itself.
fn integers(values: &[i64], packed: bool) -> Vec<u8> {
    let mut list = Vec::new();
    for value in values {
        if !packed {
            list.push(1 << 3);
        }
        put_varint(&mut list, value.cast_unsigned());
    }
    field(3, &if packed { field(1, &list) } else { list })
}

fn floats(values: &[f32], packed: bool) -> Vec<u8> {
    let mut list = Vec::new();
    for value in values {
        if !packed {
            list.push(1 << 3 | 5);
        }
        list.extend_from_slice(&value.to_le_bytes());
    }
    field(2, &if packed { field(1, &list) } else { list })
}

fn texts(values: &[Vec<u8>]) -> Vec<u8> {
    field(1, &values.iter().flat_map(|value| field(1, value)).collect::<Vec<_>>())
}

fn example(features: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entries = features
        .iter()
        .flat_map(|(name, feature)| field(1, &[field(1, name.as_bytes()), field(2, feature)].concat()));
    field(1, &entries.collect::<Vec<_>>())
}

/// Records one after another: the buffer, where each begins, and how long each is.
fn packed(records: &[Vec<u8>]) -> (Vec<u8>, Vec<u64>, Vec<u64>) {
    let lengths: Vec<u64> = records.iter().map(|record| record.len() as u64).collect();
    let mut end = 0;
    let mut starts = Vec::new();
    for length in &lengths {
        starts.push(end);
        end += length;
    }
    (records.concat(), starts, lengths)
}

#[test]
fn the_masked_sum_is_that_of_tensorflow() {
    // `masked_crc32c` of eight zero bytes, as in the frame of every empty record.
    assert_eq!(frame(b""), [0, 0, 0, 0, 0, 0, 0, 0, 0x29, 0x03, 0x98, 0x07, 0xd8, 0xea, 0x82, 0xa2]);
}

#[test]
fn a_wrong_sum_is_told_by_its_place() {
    let mut bytes = [frame(b"abc"), frame(b"defg")].concat();
    bytes[19 + 13] ^= 1;
    let error = walk(&bytes, 100, true);
    assert!(matches!(error, Err(Error::Checksum { offset: 119, what: "data", .. })), "{error:?}");
    assert_eq!(walk(&bytes, 0, false).unwrap().lengths, [3, 4]);
    bytes[19] ^= 1;
    let error = walk(&bytes, 0, false);
    assert!(matches!(error, Err(Error::Checksum { offset: 19, what: "length", .. })), "{error:?}");
}

#[test]
fn a_length_beyond_all_files_is_an_error() {
    let length = u64::MAX.to_le_bytes();
    let bytes = [&length[..], &masked(zrecord::crc32c(&length)).to_le_bytes(), b"data"].concat();
    for data in [false, true] {
        assert_eq!(walk(&bytes, 7, data), Err(Error::Length { offset: 7, length: u64::MAX }));
    }
}

#[test]
fn a_feature_that_occurs_twice_counts_as_the_last_time() {
    let record = example(&[
        ("a", integers(&[1, 2], true)),
        ("b", texts(&[b"xy".to_vec(), b"z".to_vec()])),
        ("a", integers(&[3], true)),
        ("b", texts(&[b"w".to_vec()])),
    ]);
    let (bytes, starts, lengths) = packed(&[record.clone(), record]);
    let seen = scan(&bytes, &starts, &lengths, 0).unwrap();
    assert_eq!(seen.iter().map(|one| one.present).collect::<Vec<_>>(), [2, 2]);
    let wanted = [(b"b".to_vec(), Kind::Bytes), (b"a".to_vec(), Kind::Int64)];
    let found = columns(&bytes, &starts, &lengths, 0, &wanted).unwrap();
    assert_eq!(found[0], Column { counts: vec![1, 1], values: Values::Bytes(b"ww".to_vec(), vec![1, 1]) });
    assert_eq!(found[1], Column { counts: vec![1, 1], values: Values::Int64(vec![3, 3]) });
}

#[test]
fn kinds_must_agree() {
    let (bytes, starts, lengths) =
        packed(&[example(&[("a", integers(&[1], true))]), example(&[("a", floats(&[1.0], true))])]);
    let expected = Error::Kind { record: 11, feature: "a".to_owned(), found: "float", expected: "int64" };
    assert_eq!(scan(&bytes, &starts, &lengths, 10), Err(expected.clone()));
    assert_eq!(columns(&bytes, &starts, &lengths, 10, &[(b"a".to_vec(), Kind::Int64)]), Err(expected));
}

#[test]
fn other_messages_are_told_apart() {
    let sequence = [example(&[]), field(2, b"")].concat();
    let cases = [sequence, vec![8, 1], vec![0xff], field(1, &[0x18, 1]), field(1, &field(1, &[0x0a, 9]))];
    for record in cases {
        let (bytes, starts, lengths) = packed(&[record]);
        let error = scan(&bytes, &starts, &lengths, 0);
        assert!(matches!(error, Err(Error::NotAnExample { record: 0, .. })), "{error:?}");
    }
    // A feature without a list is as if it were not there.
    let (bytes, starts, lengths) = packed(&[example(&[("a", Vec::new())])]);
    let seen = scan(&bytes, &starts, &lengths, 0).unwrap();
    assert_eq!((seen[0].kind, seen[0].present), (None, 0));
}

type Given = (Option<Vec<i64>>, Option<Vec<f32>>, Option<Vec<Vec<u8>>>);

proptest! {
    #[test]
    fn frames_are_found_again(records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..9), cut in any::<prop::sample::Index>()) {
        let bytes: Vec<u8> = records.iter().flat_map(|record| frame(record)).collect();
        let all = walk(&bytes, 0, true).unwrap();
        let found: Vec<_> = all.starts.iter().zip(&all.lengths).map(|(a, n)| bytes[*a as usize..(a + n) as usize].to_vec()).collect();
        prop_assert_eq!(&found, &records);
        prop_assert_eq!(all.end, bytes.len() as u64);
        let short = walk(&bytes[..cut.index(bytes.len() + 1)], 0, true).unwrap();
        prop_assert_eq!(&short.starts[..], &all.starts[..short.starts.len()]);
    }

    #[test]
    fn columns_are_what_was_written(
        given in prop::collection::vec(any::<Given>(), 0..9),
        packs in any::<bool>(),
    ) {
        let records: Vec<_> = given.iter().map(|(a, b, c)| {
            let mut features = Vec::new();
            features.extend(a.as_ref().map(|values| ("a", integers(values, packs))));
            features.extend(c.as_ref().map(|values| ("c", texts(values))));
            features.extend(b.as_ref().map(|values| ("b", floats(values, packs))));
            example(&features)
        }).collect();
        let (bytes, starts, lengths) = packed(&records);
        let wanted = [(b"a".to_vec(), Kind::Int64), (b"b".to_vec(), Kind::Float), (b"c".to_vec(), Kind::Bytes)];
        let found = columns(&bytes, &starts, &lengths, 0, &wanted).unwrap();
        let count = |length: Option<usize>| length.map_or(-1, |length| length as i64);
        let counts: Vec<_> = given.iter().map(|(a, _, _)| count(a.as_ref().map(Vec::len))).collect();
        prop_assert_eq!(&found[0].counts, &counts);
        let values = given.iter().flat_map(|(a, _, _)| a.clone().unwrap_or_default()).collect();
        prop_assert_eq!(&found[0].values, &Values::Int64(values));
        let Values::Float(floats) = &found[1].values else { panic!() };
        let bits: Vec<_> = given.iter().flat_map(|(_, b, _)| b.clone().unwrap_or_default()).map(f32::to_bits).collect();
        prop_assert_eq!(floats.iter().map(|value| value.to_bits()).collect::<Vec<_>>(), bits);
        let texts: Vec<_> = given.iter().flat_map(|(_, _, c)| c.clone().unwrap_or_default()).collect();
        let sizes = texts.iter().map(|text| text.len() as i64).collect();
        prop_assert_eq!(&found[2].values, &Values::Bytes(texts.concat(), sizes));
        for (one, column) in scan(&bytes, &starts, &lengths, 0).unwrap().iter().map(|one| {
            (one, &found[usize::from(one.name[0] - b'a')])
        }) {
            let there: Vec<_> = column.counts.iter().filter(|count| **count >= 0).map(|count| *count as u64).collect();
            prop_assert_eq!(one.present, there.len() as u64);
            prop_assert_eq!((one.least, one.most), (*there.iter().min().unwrap(), *there.iter().max().unwrap()));
        }
    }

    #[test]
    fn any_bytes_are_an_answer_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..80), start in 0_u64..90, length in any::<u64>()) {
        drop(walk(&bytes, 0, true));
        drop(walk(&bytes, u64::MAX, false));
        drop(scan(&bytes, &[0], &[bytes.len() as u64], 0));
        drop(scan(&bytes, &[start], &[length], u64::MAX));
        for kind in [Kind::Bytes, Kind::Float, Kind::Int64] {
            drop(columns(&bytes, &[0], &[bytes.len() as u64], 0, &[(Vec::new(), kind)]));
        }
    }
}
