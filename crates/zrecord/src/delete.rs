//! Deletion by swap-last: the last record takes the place of a deleted one, so that live records are always exactly `0..length`.

use std::collections::HashMap;

use crate::append::Writer;
use crate::error::{Error, Result};
use crate::format::{FLAG_SUMS, FLAG_UNIFORM, Header, Intent, IntentKind, names};
use crate::open::Open;
use crate::recover;
use crate::rows;
use crate::storage::{remove_if_there, replace};

/// Delete the records `idxs` (each below the length, in any order, duplicates count once), all or none: the outcome is that of
/// swap-last one by one in descending order. The caller has synced and holds the store alone.
///
/// Their bytes stay in the chunks until a compaction. Memory and the size of the intent are 64 bytes a record that moves, at most
/// one for each that is deleted.
pub(crate) fn delete(open: &Open, writer: &mut Writer, idxs: &[u64]) -> Result<()> {
    let before = writer.header;
    let (length, mut moves) = moves(before.length, idxs);
    if length == before.length {
        return Ok(());
    }
    moves.sort_unstable_by_key(|&(_, origin)| origin);
    let origins: Vec<u64> = moves.iter().map(|&(_, origin)| origin).collect();
    let mut changes = rows::read(open, &before, &origins)?;
    for (change, &(slot, _)) in changes.iter_mut().zip(&moves) {
        change.record = slot;
    }
    changes.sort_unstable_by_key(|change| change.record);
    let header = Header {
        length,
        generation: before.generation.wrapping_add(1),
        // A store without records keeps no shapes, and has the sums of all of them.
        flags: if length == 0 { FLAG_SUMS } else { before.flags & !FLAG_UNIFORM },
        ..before
    };
    let intent = Intent {
        kind: IntentKind::Delete,
        header,
        changes,
        payload_chunk: 0,
        payload_offset: 0,
        payload: Vec::new(),
    };
    let fail = |verb| Error::io(verb, open.dir.path().join(names::INTENT));
    replace(&*open.dir, names::INTENT, &intent.encode()).map_err(fail("write"))?;
    recover::replay(writer, &intent)?;
    writer.cut_files(&header)?;
    writer.sync()?;
    remove_if_there(&*open.dir, names::INTENT).map_err(fail("remove"))
}

/// The new length, and (slot, origin) of each record that ends in another slot. Every origin is at or beyond the new length.
fn moves(mut length: u64, idxs: &[u64]) -> (u64, Vec<(u64, u64)>) {
    let mut holes = idxs.to_vec();
    holes.sort_unstable();
    holes.dedup();
    let mut moved: HashMap<u64, u64> = HashMap::new();
    for &hole in holes.iter().rev() {
        let Some(last) = length.checked_sub(1) else { break };
        let origin = moved.remove(&last).unwrap_or(last);
        if hole != last {
            moved.insert(hole, origin);
        }
        length = last;
    }
    (length, moved.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Swap-last on a plain list.
    fn twin(length: u64, idxs: &[u64]) -> Vec<u64> {
        let mut list: Vec<u64> = (0..length).collect();
        let mut holes = idxs.to_vec();
        holes.sort_unstable();
        holes.dedup();
        for &hole in holes.iter().rev() {
            list.swap_remove(usize::try_from(hole).unwrap());
        }
        list
    }

    #[test]
    fn moves_are_those_of_swap_last_for_every_subset() {
        for length in 0..9u64 {
            for subset in 0..1u64 << length {
                let mut idxs: Vec<u64> = (0..length).filter(|i| subset >> i & 1 == 1).collect();
                idxs.extend(idxs.clone());
                let (new_length, moves) = moves(length, &idxs);
                let mut list: Vec<u64> = (0..new_length).collect();
                for (slot, origin) in moves {
                    assert!(origin >= new_length, "record {origin} had no reason to move");
                    list[usize::try_from(slot).unwrap()] = origin;
                }
                assert_eq!(list, twin(length, &idxs), "{idxs:?} of {length}");
            }
        }
    }
}
