//! What the fuzz target `foreign` runs, and ordinary tests replay: bytes in, a panic where a law is broken.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "for tests and fuzzing only: a panic is a finding"
)]

#[cfg(test)]
mod replay;

use crate::Result;
use crate::tar::{Arrays, Samples, Walk, seal};
use crate::tfrecord::{self, Kind, Values, columns, scan};

/// Read what `data` holds, in the way that its first byte says.
pub fn foreign(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    match kind % 5 {
        0 => frames(rest),
        1 => examples(rest),
        2 => decoded(rest),
        3 => archive(rest),
        // Most of what is made up has wrong checksums, and says nothing of what is behind them.
        _ => archive(&sealed(rest)),
    }
}

/// A walk over frames finds the same whether it knows the data or not, and its records lie in order.
fn frames(bytes: &[u8]) {
    let lengths = tfrecord::walk(bytes, 0, false);
    let Ok(walk) = tfrecord::walk(bytes, 0, true) else { return };
    assert_eq!(walk.starts.len(), walk.lengths.len());
    assert!(walk.end <= bytes.len() as u64);
    let mut end = 0;
    for (start, length) in walk.starts.iter().zip(&walk.lengths) {
        assert_eq!(*start, end + tfrecord::HEADER as u64);
        end = start + length + tfrecord::FRAME - tfrecord::HEADER as u64;
    }
    assert_eq!(end, walk.end);
    if let Ok(lengths) = lengths {
        assert!(lengths.starts.starts_with(&walk.starts));
    }
    parsed(bytes, &walk.starts, &walk.lengths);
}

/// The bytes as up to four messages.
fn examples(bytes: &[u8]) {
    let Some((cut, bytes)) = bytes.split_first_chunk::<3>() else { return };
    let mut ends: Vec<u64> = cut.iter().map(|end| u64::from(*end).min(bytes.len() as u64)).collect();
    ends.push(bytes.len() as u64);
    ends.sort_unstable();
    let starts: Vec<u64> = [0].into_iter().chain(ends.iter().copied()).take(4).collect();
    let lengths: Vec<u64> = starts.iter().zip(&ends).map(|(start, end)| end - start).collect();
    parsed(bytes, &starts, &lengths);
    let _ = scan(bytes, &ends, &lengths, u64::MAX);
}

/// What a scan counts is what columns have.
fn parsed(bytes: &[u8], starts: &[u64], lengths: &[u64]) {
    let Ok(seen) = scan(bytes, starts, lengths, 0) else { return };
    let wanted: Vec<(Vec<u8>, Kind)> =
        seen.iter().filter_map(|one| Some((one.name.clone(), one.kind?))).collect();
    let columns = columns(bytes, starts, lengths, 0, &wanted).unwrap();
    for (seen, column) in seen.iter().filter(|one| one.kind.is_some()).zip(&columns) {
        let there = || column.counts.iter().filter(|count| **count >= 0).map(|count| *count as u64);
        assert_eq!((column.counts.len(), there().count() as u64), (starts.len(), seen.present));
        assert!(there().all(|count| (seen.least..=seen.most).contains(&count)));
        let (values, bytes_of) = match &column.values {
            Values::Bytes(bytes, sizes) => (sizes.len(), sizes.iter().sum::<i64>() as usize == bytes.len()),
            Values::Float(values) => (values.len(), true),
            Values::Int64(values) => (values.len(), true),
        };
        assert_eq!(there().sum::<u64>(), values as u64);
        assert!(bytes_of);
    }
}

/// Frames of zstd at places that the input says: what is decoded goes where it should, and nowhere else.
fn decoded(bytes: &[u8]) {
    let Some((numbers, src)) = bytes.split_first_chunk::<8>() else { return };
    let frames = zrecord::Frames::new(
        if numbers[0] & 1 == 0 { zrecord::Codec::Zstd } else { zrecord::Codec::Raw },
        None,
    );
    let [_, room, a, b, c, d, e, f] = numbers.map(u64::from);
    let mut dst = vec![0xA5; room as usize * 16];
    let places = zrecord::Places { starts: &[a, c], ends: &[b, d], offsets: &[0, e, e.saturating_add(f)] };
    let _ = frames.unwrap().decode(src, places, &mut dst, 0);
    let used = (e + f) as usize;
    assert!(dst.iter().skip(used).all(|byte| *byte == 0xA5), "written behind the records");
}

/// Whatever an archive holds, it is the same in pieces of any size, and its files lie in it, one behind the other.
fn archive(bytes: &[u8]) {
    let (whole, pieces) = (walked(bytes, usize::MAX), walked(bytes, 1));
    assert_eq!(whole, pieces);
    let Ok(samples) = whole else { return };
    let mut places = Vec::new();
    for files in &samples.files {
        assert!(files.samples.is_sorted_by(|a, b| a < b));
        assert!(files.samples.iter().all(|sample| (0..samples.key_ends.len() as i64).contains(sample)));
        places.extend(files.starts.iter().zip(&files.sizes).map(|(start, size)| (*start, start + size)));
    }
    places.sort_unstable();
    assert!(places.is_sorted_by(|a, b| a.1 <= b.0));
    assert!(places.iter().all(|(start, end)| start % 512 == 0 && *end <= bytes.len() as i64));
    assert!(samples.key_ends.is_sorted());
    assert_eq!(samples.key_ends.last().copied().unwrap_or(0), samples.keys.len() as i64);
}

fn walked(bytes: &[u8], step: usize) -> Result<Samples> {
    let mut walk = Walk::new(Arrays { last: vec![b"npy".to_vec()], ..Arrays::default() });
    loop {
        let before = walk.wanted();
        assert!(before.1 <= 2 << 20);
        let from = (before.0 as usize).min(bytes.len());
        let upto = from.saturating_add(step.max(before.1 as usize)).min(bytes.len());
        walk.feed(&bytes[from..upto], before.0)?;
        if upto - from < before.1 as usize {
            walk.finish(bytes.len() as u64)?;
            return Ok(walk.into_samples());
        }
        assert_ne!(walk.wanted(), before, "it doesn't go on");
    }
}

/// An archive of the input's blocks: each begins with its flags, of which one makes it a header.
fn sealed(mut input: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(([flags, length, rest @ ..], later)) = input.split_first_chunk::<3>() {
        let (content, later) = later.split_at(usize::from(*length).min(later.len()));
        input = later;
        let mut block = [0; 512];
        let short = content.len().min(512);
        block[..short].copy_from_slice(&content[..short]);
        if flags & 1 == 1 {
            block[100..].fill(0);
            block[156] = b"0L0xgK50"[usize::from(flags >> 1 & 7)];
            block[124..136].copy_from_slice(format!("{:011o} ", u16::from(rest[0]) * 4).as_bytes());
            seal(&mut block);
        }
        out.extend_from_slice(&block);
    }
    // Most archives end as they should.
    out.resize(out.len() + 1024, 0);
    out
}
