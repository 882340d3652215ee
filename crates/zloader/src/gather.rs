//! The records of a step, from the stores of a stream into memory of their own.

use std::borrow::Cow;
use std::sync::Arc;

use zrecord::{Shape, Store};

use crate::draws::Drawn;
use crate::error::{Error, Result};
use crate::memory::Memory;

/// Where a batch comes from: one store a component, and what the records are.
#[derive(Debug, Clone)]
pub enum Stream {
    /// Records that are all `row` bytes long.
    Rows {
        /// One a component.
        stores: Vec<Arc<Store>>,
        /// Bytes of a record.
        row: usize,
    },
    /// Records of any length.
    Packed {
        /// One a component.
        stores: Vec<Arc<Store>>,
    },
}

/// What a stream gives for a step.
#[derive(Debug)]
pub enum Batch {
    /// One record after another, all of one length.
    Rows(Memory),
    /// Records of several lengths.
    Packed(Packed),
}

/// Records one after another.
#[derive(Debug)]
pub struct Packed {
    /// Their bytes.
    pub values: Memory,
    /// Where each of them begins, and where the last one ends.
    pub offsets: Vec<i64>,
    /// Their shape entries, if any of the stores keeps such; plain ones for the records of a store that doesn't.
    pub shapes: Option<Vec<Shape>>,
}

impl Batch {
    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bytes = match self {
            Self::Rows(memory) => memory.len(),
            Self::Packed(packed) => {
                let shapes = packed.shapes.as_deref().map_or(0, size_of_val);
                packed.values.len().saturating_add(size_of_val(&packed.offsets[..])).saturating_add(shapes)
            }
        };
        bytes as u64
    }
}

impl Stream {
    pub(crate) fn stores(&self) -> &[Arc<Store>] {
        match self {
            Self::Rows { stores, .. } | Self::Packed { stores } => stores,
        }
    }

    /// Bytes of a batch of `count` records, if that is known before it is gathered.
    pub(crate) fn expected(&self, count: usize) -> Option<u64> {
        match self {
            Self::Rows { row, .. } => Some(count.saturating_mul(*row) as u64),
            Self::Packed { .. } => None,
        }
    }

    /// The records of a step.
    pub(crate) fn gather(&self, drawn: &Drawn) -> Result<Batch> {
        let parts = parts(self.stores(), drawn)?;
        let count = drawn.indices.len();
        match self {
            Self::Rows { row, .. } => rows(&parts, count, *row).map(Batch::Rows),
            Self::Packed { .. } => packed(&parts, count).map(Batch::Packed),
        }
    }
}

/// The records `idxs` of a store one after another, all of one moment, whatever other threads do to the store meanwhile.
///
/// # Errors
/// As [`Store::gather`]; [`Error::OutOfMemory`].
pub fn pack(store: &Store, idxs: &[u64]) -> Result<Packed> {
    packed(&[Part { store, idxs: Cow::Borrowed(idxs), places: None }], idxs.len())
}

/// What a batch takes from one store.
struct Part<'a> {
    store: &'a Store,
    idxs: Cow<'a, [u64]>,
    /// Their places in the batch; `None` where these are all of it.
    places: Option<Vec<usize>>,
}

impl Part<'_> {
    /// Of what the batch has in order, what belongs to this part's records.
    fn select<T: Default>(&self, all: &mut [T]) -> Vec<T> {
        match &self.places {
            None => all.iter_mut().map(std::mem::take).collect(),
            Some(places) => {
                places.iter().filter_map(|&place| all.get_mut(place).map(std::mem::take)).collect()
            }
        }
    }

    /// Put what belongs to this part's records where they are in the batch.
    fn scatter<T>(&self, values: Vec<T>, all: &mut [T]) {
        match &self.places {
            None => all.iter_mut().zip(values).for_each(|(slot, value)| *slot = value),
            Some(places) => {
                for (&place, value) in places.iter().zip(values) {
                    if let Some(slot) = all.get_mut(place) {
                        *slot = value;
                    }
                }
            }
        }
    }
}

/// A step's records by store; stores that none of them is of are left out.
fn parts<'a>(stores: &'a [Arc<Store>], drawn: &'a Drawn) -> Result<Vec<Part<'a>>> {
    let unknown = || Error::Internal("a record of a component that isn't was drawn".to_owned());
    let Some(sources) = &drawn.sources else {
        let store = stores.first().ok_or_else(unknown)?;
        return Ok(vec![Part { store, idxs: Cow::Borrowed(&drawn.indices), places: None }]);
    };
    if let Some(&first) = sources.first()
        && sources.iter().all(|&source| source == first)
    {
        let store = stores.get(first as usize).ok_or_else(unknown)?;
        return Ok(vec![Part { store, idxs: Cow::Borrowed(&drawn.indices), places: None }]);
    }
    let mut chosen: Vec<(Vec<u64>, Vec<usize>)> = stores.iter().map(|_| Default::default()).collect();
    for (place, (&source, &index)) in sources.iter().zip(&drawn.indices).enumerate() {
        let (idxs, places) = chosen.get_mut(source as usize).ok_or_else(unknown)?;
        idxs.push(index);
        places.push(place);
    }
    let part = |(store, (idxs, places)): (&'a Arc<Store>, (Vec<u64>, Vec<usize>))| Part {
        store,
        idxs: Cow::Owned(idxs),
        places: Some(places),
    };
    Ok(stores.iter().zip(chosen).filter(|(_, (idxs, _))| !idxs.is_empty()).map(part).collect())
}

fn rows(parts: &[Part<'_>], count: usize, row: usize) -> Result<Memory> {
    let too_large = || Error::OutOfMemory { bytes: (count as u64).saturating_mul(row as u64) };
    let mut memory = count.checked_mul(row).and_then(Memory::new).ok_or_else(too_large)?;
    if let [Part { store, idxs, places: None }] = parts {
        store.gather_rows(idxs, memory.as_mut_slice())?;
        return Ok(memory);
    }
    let mut places = cut(memory.as_mut_slice(), (0..count).map(|_| row));
    for part in parts {
        part.store.gather_places(&part.idxs, part.select(&mut places))?;
    }
    Ok(memory)
}

fn packed(parts: &[Part<'_>], count: usize) -> Result<Packed> {
    loop {
        let before = generations(parts)?;
        let lengths = lengths(parts, count)?;
        let offsets = offsets(&lengths)?;
        let bytes = offsets.last().copied().unwrap_or_default().unsigned_abs();
        let too_large = || Error::OutOfMemory { bytes };
        let mut values = usize::try_from(bytes).ok().and_then(Memory::new).ok_or_else(too_large)?;
        let places = cut(values.as_mut_slice(), lengths.into_iter().map(|length| length as usize));
        match into_places(parts, places) {
            Ok(shapes) => return Ok(Packed { values, offsets, shapes }),
            // Another thread deleted in between: the lengths were those of other records.
            Err(_) if generations(parts)? != before => {}
            Err(error) => return Err(error),
        }
    }
}

fn generations(parts: &[Part<'_>]) -> Result<Vec<u32>> {
    parts.iter().map(|part| Ok(part.store.generation()?)).collect()
}

fn lengths(parts: &[Part<'_>], count: usize) -> Result<Vec<u32>> {
    if let [Part { store, idxs, places: None }] = parts {
        return Ok(store.lengths(idxs)?);
    }
    let mut lengths = vec![0; count];
    for part in parts {
        part.scatter(part.store.lengths(&part.idxs)?, &mut lengths);
    }
    Ok(lengths)
}

fn offsets(lengths: &[u32]) -> Result<Vec<i64>> {
    let mut end = 0_i64;
    let mut offsets = Vec::with_capacity(lengths.len().saturating_add(1));
    offsets.push(end);
    for &length in lengths {
        let next = end.checked_add(length.into());
        end = next.ok_or(Error::OutOfMemory { bytes: u64::MAX })?;
        offsets.push(end);
    }
    Ok(offsets)
}

/// Gather each part into its places; the shape entries of the batch if any part has some.
fn into_places(parts: &[Part<'_>], mut places: Vec<&mut [u8]>) -> Result<Option<Vec<Shape>>> {
    let count = places.len();
    if let [Part { store, idxs, places: None }] = parts {
        return Ok(store.gather_places(idxs, places)?);
    }
    let mut shapes = None;
    for part in parts {
        if let Some(found) = part.store.gather_places(&part.idxs, part.select(&mut places))? {
            part.scatter(found, shapes.get_or_insert_with(|| vec![Shape::default(); count]));
        }
    }
    Ok(shapes)
}

/// Memory cut into places of these lengths, which it holds all of.
fn cut(memory: &mut [u8], lengths: impl Iterator<Item = usize>) -> Vec<&mut [u8]> {
    let mut rest = memory;
    let mut places = Vec::with_capacity(lengths.size_hint().0);
    for length in lengths {
        let (now, later) = std::mem::take(&mut rest).split_at_mut_checked(length).unwrap_or_default();
        places.push(now);
        rest = later;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use zrecord::{Codec, Options, Records};

    /// What record `i` of component `k` holds: as many bytes as `length` says.
    fn record(k: u8, i: u64, length: usize) -> Vec<u8> {
        (0..length).map(|at| k ^ u8::try_from((i + at as u64) % 251).unwrap()).collect()
    }

    fn uneven(i: u64) -> usize {
        usize::try_from(i * 7 % 23).unwrap()
    }

    /// A store of 40 records; one in two of them has shapes.
    fn store(home: &tempfile::TempDir, k: u8, length: impl Fn(u64) -> usize, shaped: bool) -> Arc<Store> {
        let codec = if k == 0 { Codec::Raw } else { Codec::Zstd };
        let path = home.path().join(format!("{k}-{shaped}"));
        let store = Store::create(&path, Options::new().codec(codec)).unwrap();
        let records: Vec<Vec<u8>> = (0..40).map(|i| record(k, i, length(i))).collect();
        let slices = records.iter().map(Vec::as_slice).collect();
        store.append(&Records::list(slices), shaped.then(shapes).as_deref()).unwrap();
        Arc::new(store)
    }

    fn shapes() -> Vec<Shape> {
        (0..40).map(|i| Shape([2, i, 1, 0, 0, 0, 0, 0])).collect()
    }

    fn drawn(mixed: bool, only: Option<u32>) -> Drawn {
        let indices: Vec<u64> = (0..64).map(|place| place * 17 % 40).collect();
        let sources = (0..64).map(|place| only.unwrap_or((place + place / 9 + 1) % 3)).collect();
        Drawn { indices, sources: mixed.then_some(sources) }
    }

    fn naive(drawn: &Drawn, length: impl Fn(u64) -> usize) -> Vec<Vec<u8>> {
        let source =
            |place| drawn.sources.as_ref().map_or(0, |sources| u8::try_from(sources[place]).unwrap());
        drawn.indices.iter().enumerate().map(|(place, &i)| record(source(place), i, length(i))).collect()
    }

    fn cases() -> Vec<Drawn> {
        let mut cases =
            vec![drawn(false, None), drawn(true, None), drawn(true, Some(1)), drawn(true, Some(0))];
        cases.extend([false, true].map(|mixed| Drawn { indices: vec![], sources: mixed.then(Vec::new) }));
        cases
    }

    #[test]
    fn rows_of_any_component() {
        for row in [0, 1, 24, 5000] {
            let home = tempfile::tempdir().unwrap();
            let stores: Vec<_> = (0..3).map(|k| store(&home, k, |_| row, false)).collect();
            let stream = Stream::Rows { stores, row };
            for drawn in cases() {
                let Batch::Rows(memory) = stream.gather(&drawn).unwrap() else { panic!("no rows") };
                assert_eq!(memory.as_slice(), naive(&drawn, |_| row).concat());
                assert_eq!(stream.expected(drawn.indices.len()), Some(memory.len() as u64));
            }
        }
    }

    #[test]
    fn packed_records_of_any_component() {
        let home = tempfile::tempdir().unwrap();
        let stores: Vec<_> = (0..3).map(|k| store(&home, k, uneven, k == 2)).collect();
        let stream = Stream::Packed { stores };
        for drawn in cases() {
            let Batch::Packed(found) = stream.gather(&drawn).unwrap() else { panic!("not packed") };
            let expected = naive(&drawn, uneven);
            assert_eq!(found.values.as_slice(), expected.concat());
            let ends = found.offsets.windows(2).map(|ends| ends[1] - ends[0]);
            assert!(ends.eq(expected.iter().map(|record| i64::try_from(record.len()).unwrap())));
            assert_eq!(found.offsets.len(), drawn.indices.len() + 1);
            let Some(sources) = drawn.sources.filter(|sources| sources.contains(&2)) else {
                assert!(found.shapes.is_none());
                continue;
            };
            let shape = |(&source, &i): (&u32, &u64)| {
                if source == 2 { shapes()[usize::try_from(i).unwrap()] } else { Shape::default() }
            };
            let expected: Vec<Shape> = sources.iter().zip(&drawn.indices).map(shape).collect();
            assert_eq!(found.shapes.unwrap(), expected);
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let even = |k| store(&home, k, |_| 8, false);
        let uneven = store(&home, 2, |i| if i == 17 { 7 } else { 8 }, true);
        let stream = Stream::Rows { stores: vec![even(0), even(1), uneven], row: 8 };
        let error = stream.gather(&drawn(true, None)).unwrap_err();
        let short = Drawn { indices: vec![3, 17], sources: Some(vec![0, 2]) };
        assert!(stream.gather(&drawn(true, Some(1))).is_ok());
        for error in [error, stream.gather(&short).unwrap_err()] {
            assert!(matches!(error, Error::Store(zrecord::Error::LengthMismatch { .. })), "{error}");
        }
        for (index, source) in [(40, 0), (0, 3)] {
            let beyond = Drawn { indices: vec![0, index], sources: Some(vec![0, source]) };
            assert!(stream.gather(&beyond).is_err());
        }
        assert!(matches!(
            rows(&[], usize::MAX, 2).map(|memory| memory.len()),
            Err(Error::OutOfMemory { .. })
        ));
    }
}
