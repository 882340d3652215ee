//! What an input does to the files of a store, and the checksums that are made right afterwards.

use super::bases::Files;
use super::input::Input;
use crate::checksum::crc32c;
use crate::codec::Codec;
use crate::format::{Entry, Header, Intent, Shape, Sum, SyncSlot, names};

/// The longest file that damage makes.
const LONGEST: usize = 1 << 16;
/// Names that a store of ours may lack.
const MORE: [&str; 6] =
    [names::INTENT, names::DICT, "9.chunk", "9.loc", "4294967295.chunk", "1073741823.loc"];

/// What was made right after the damage.
#[derive(Clone, Copy)]
pub(super) struct Seal {
    /// Header, sync slots and intent.
    pub(super) headers: bool,
    /// Each record's sum.
    pub(super) sums: bool,
}

impl Seal {
    pub(super) fn choose(input: &mut Input<'_>) -> Self {
        let choice = input.u8();
        Self { headers: choice & 1 == 1, sums: choice & 2 == 2 }
    }

    /// Whether hostile values got past a checksum.
    pub(super) fn any(self) -> bool {
        self.headers || self.sums
    }
}

/// Change up to 15 things. Where nothing is made right afterwards, bytes that are set come out of a hash: an input that finds
/// matching checksums by comparing would claim what no accident does.
pub(super) fn damage(files: &mut Files, seal: Seal, input: &mut Input<'_>) {
    for _ in 0..input.below(16) {
        edit(files, seal, input);
    }
    if seal.sums {
        seal_sums(files);
    }
    if seal.headers {
        seal_headers(files);
    }
}

fn edit(files: &mut Files, seal: Seal, input: &mut Input<'_>) {
    let what = input.u8();
    let name = choose_name(files, input);
    match what % 8 {
        0 | 1 => {
            let (at, count) = (usize::from(input.u16()), 1 + input.below(8));
            let bytes = input.take(count).to_vec();
            let bytes = if seal.any() { bytes } else { hashed(&bytes) };
            overwrite(files, name, at, &bytes);
        }
        2 => {
            let (at, by) = (usize::from(input.u16()), input.u8());
            if let Some(byte) = files.get_mut(&name).and_then(|bytes| bytes.get_mut(at)) {
                *byte ^= by;
            }
        }
        3 => {
            let length = usize::from(input.u16());
            if let Some(bytes) = files.get_mut(&name) {
                bytes.truncate(length);
            }
        }
        4 => {
            let (count, with) = (usize::from(input.u16()), input.u8());
            let bytes = files.entry(name).or_default();
            bytes.resize((bytes.len() + count).min(LONGEST), with);
        }
        5 => drop(files.remove(&name)),
        6 => {
            let from = choose_name(files, input);
            let (start, count, at) = (input.u16().into(), input.below(256), input.u16().into());
            let copied: Vec<u8> =
                files.get(&from).into_iter().flatten().skip(start).take(count).copied().collect();
            overwrite(files, name, at, &copied);
        }
        _ => {
            let other = choose_name(files, input);
            let (a, b) = (files.remove(&name), files.remove(&other));
            files.extend(a.map(|bytes| (other, bytes)));
            files.extend(b.map(|bytes| (name, bytes)));
        }
    }
}

fn choose_name(files: &Files, input: &mut Input<'_>) -> String {
    let choice = input.below(files.len() + MORE.len());
    match choice.checked_sub(files.len()) {
        Some(i) => MORE[i].to_owned(),
        None => files.keys().nth(choice).unwrap().clone(),
    }
}

fn overwrite(files: &mut Files, name: String, at: usize, bytes: &[u8]) {
    let file = files.entry(name).or_default();
    let end = (at + bytes.len()).min(LONGEST);
    if file.len() < end {
        file.resize(end, 0);
    }
    file.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
}

fn hashed(bytes: &[u8]) -> Vec<u8> {
    let mut state = bytes.iter().fold(0xCBF2_9CE4_8422_2325_u64, |state, &byte| {
        (state ^ u64::from(byte)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    });
    let mut next = || {
        state = (state ^ state >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9).wrapping_add(1);
        state.to_le_bytes()[7]
    };
    bytes.iter().map(|_| next()).collect()
}

fn seal_crc(bytes: &mut [u8]) {
    if let Some((body, crc)) = bytes.split_last_chunk_mut::<4>() {
        *crc = crc32c(body).to_le_bytes();
    }
}

fn seal_headers(files: &mut Files) {
    let meta = files.get_mut(names::META).and_then(|bytes| bytes.get_mut(..Header::SIZE));
    // A plain version 3 header stays one.
    if let Some(meta) = meta.filter(|meta| meta[22..].iter().any(|&b| b != 0)) {
        seal_crc(meta);
    }
    let mut part = |name, at: usize, length| {
        if let Some(bytes) = files.get_mut(name).and_then(|bytes| bytes.get_mut(at..at + length)) {
            seal_crc(bytes);
        }
    };
    for at in [0, SyncSlot::STRIDE] {
        part(names::SYNC, at, Header::SIZE);
        part(names::SYNC, at, SyncSlot::SIZE);
    }
    part(names::INTENT, 8, Header::SIZE);
    if let Some(intent) = files.get_mut(names::INTENT).filter(|bytes| bytes.len() >= Intent::FIXED) {
        seal_crc(intent);
    }
}

/// Make the sum of each record that lies in its chunk the sum of what lies there.
fn seal_sums(files: &mut Files) {
    for segment in 0..16 {
        let Some(table) = files.get(&format!("{segment}.loc")) else { continue };
        let shapes = files.get(&format!("{segment}.shape"));
        let mut sums = Vec::new();
        for (record, entry) in table.as_chunks::<{ Entry::SIZE }>().0.iter().enumerate() {
            let entry = Entry::decode(entry);
            let chunk = files.get(&format!("{}.chunk", entry.chunk)).map_or(&[][..], Vec::as_slice);
            let end = usize::try_from(entry.end()).unwrap();
            let stored = chunk.get(entry.offset as usize..end).unwrap_or_default();
            let shape = shapes.and_then(|shapes| shapes.as_chunks::<{ Shape::SIZE }>().0.get(record));
            let shape = shape.map(Shape::decode).unwrap_or_default();
            sums.extend(Sum::of(stored, &entry).with_shape(&shape).encode());
        }
        if let Some(file) = files.get_mut(&format!("{segment}.sum")) {
            file.iter_mut().zip(sums).for_each(|(to, from)| *to = from);
        }
    }
}

/// Whether the dictionary of these files can't be told from another one: no sync slot is left to state its checksum.
pub(super) fn dictionary_is_unstated(files: &Files, base: &Files) -> bool {
    let meta = files.get(names::META).and_then(|bytes| bytes.get(5));
    let slot = files.get(names::SYNC).and_then(|bytes| SyncSlot::newest(bytes));
    meta == Some(&Codec::ZstdDict.tag())
        && files.get(names::DICT) != base.get(names::DICT)
        && slot.is_none_or(|slot| slot.dict_crc == 0)
}
