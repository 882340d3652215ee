//! The records of a step, from the stores of a stream into memory of their own.

use std::borrow::Cow;
use std::sync::Arc;

use zrecord::{Shape, Store};

use crate::draws::Drawn;
use crate::error::{Error, Result};
use crate::memory::Memory;

/// Where a batch comes from: one store a component, and what the records are.
#[derive(Debug)]
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
    fn select<'b, T: Default>(&self, all: &'b mut [T]) -> Vec<T>
    where
        T: 'b,
    {
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
