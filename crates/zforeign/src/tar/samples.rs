//! Samples: neighbouring files of one name up to the first dot.

use std::collections::HashMap;

use crate::error::{Error, Result, shown};

/// In place of the number of an array's header, for files that are no arrays.
pub const MISSING: i64 = -1;

/// The files of one extension, at most one a sample, in the order of the samples.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The extension, in lower case.
    pub extension: Vec<u8>,
    /// The number of the sample of each.
    pub samples: Vec<i64>,
    /// The first byte of each file's content.
    pub starts: Vec<i64>,
    /// The bytes of each.
    pub sizes: Vec<i64>,
    /// The number of each array's header; [`MISSING`] for other files.
    pub headers: Vec<i64>,
}

/// The samples of an archive.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// The names of all, one after another.
    pub keys: Vec<u8>,
    /// Where each name ends in `keys`.
    pub key_ends: Vec<i64>,
    /// The files, in the order in which extensions were met.
    pub files: Vec<Files>,
    places: HashMap<Vec<u8>, usize>,
    last: usize,
}

impl Samples {
    /// Enter a file; the place of its extension among `files`.
    pub(crate) fn put(&mut self, key: &[u8], extension: &[u8], start: i64, size: i64) -> Result<usize> {
        if self.key_ends.is_empty() || self.keys.get(self.last..) != Some(key) {
            self.last = self.keys.len();
            self.keys.extend_from_slice(key);
            self.key_ends.push(i64::try_from(self.keys.len()).unwrap_or(i64::MAX));
        }
        let sample = i64::try_from(self.key_ends.len() - 1).unwrap_or(i64::MAX);
        let place = self.place(extension);
        let Some(files) = self.files.get_mut(place) else { return Ok(place) };
        if files.samples.last() == Some(&sample) {
            return Err(Error::TarTwice { sample: shown(key), extension: shown(extension) });
        }
        files.samples.push(sample);
        files.starts.push(start);
        files.sizes.push(size);
        files.headers.push(MISSING);
        Ok(place)
    }

    fn place(&mut self, extension: &[u8]) -> usize {
        if let Some(place) = self.places.get(extension) {
            return *place;
        }
        self.places.insert(extension.to_vec(), self.files.len());
        self.files.push(Files { extension: extension.to_vec(), ..Files::default() });
        self.files.len() - 1
    }

    /// The last file that was entered with this extension is an array with this header.
    pub(crate) fn set_header(&mut self, place: usize, number: i64) {
        if let Some(header) = self.files.get_mut(place).and_then(|files| files.headers.last_mut()) {
            *header = number;
        }
    }
}

/// Sample and extension of a file, as webdataset splits its name. None for what is no part of a sample.
pub(crate) fn split(name: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    if is_about_all(name) {
        return None;
    }
    let base = name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let dot = base + name.get(base..)?.iter().position(|byte| *byte == b'.')?;
    let (key, extension) = (name.get(..dot)?, name.get(dot + 1..)?);
    // webdataset's pattern is ((?:.*/|)[^.]+)[.]([^/]*), where `.` is anything but a newline.
    let folders = key.iter().rposition(|byte| *byte == b'.').map_or(Some(0), |last| {
        key.get(last..)?.iter().position(|byte| *byte == b'/').map(|slash| last + slash + 1)
    })?;
    let is_sample = folders < dot && !key.get(..folders)?.contains(&b'\n') && !extension.is_empty();
    is_sample.then(|| (key, lower(extension)))
}

/// Names like `__meta__/x.json`.
fn is_about_all(name: &[u8]) -> bool {
    let first = name.split(|byte| *byte == b'/').next().unwrap_or_default();
    first.len() >= 4 && first.starts_with(b"__") && first.ends_with(b"__")
}

/// In lower case, as far as it is UTF-8.
fn lower(text: &[u8]) -> Vec<u8> {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let mut out = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        out.extend_from_slice(chunk.valid().to_lowercase().as_bytes());
        out.extend_from_slice(chunk.invalid());
    }
    out
}
