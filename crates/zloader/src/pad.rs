//! Records of several lengths as the rows of one dense batch.

use zrecord::Records;

use crate::error::{Error, Result};

/// Where a row that is longer than its record is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before the record.
    Left,
    /// Behind it.
    Right,
}

/// Each of the records into a row of `dense`, which are all of the same length; the rest of a row is `fill` after `fill`.
///
/// # Errors
/// [`Error::InvalidArgument`] if the rows are not so many of one length, if a record is longer than a row, or if what is left of one is not
/// so many `fill`.
pub fn pad(records: &Records<'_>, dense: &mut [u8], fill: &[u8], side: Side) -> Result<()> {
    let (count, bytes) = (records.len(), dense.len());
    let row = bytes.checked_div(count).unwrap_or_default();
    if row.checked_mul(count) != Some(bytes) {
        return Err(Error::InvalidArgument(format!("{bytes} bytes are not {count} rows of equal length")));
    }
    if row == 0 {
        return (0..count).try_for_each(|i| pad_row(i, records.get(i), &mut [], fill, side));
    }
    dense
        .chunks_exact_mut(row)
        .enumerate()
        .try_for_each(|(i, row)| pad_row(i, records.get(i), row, fill, side))
}

fn pad_row(i: usize, record: &[u8], row: &mut [u8], fill: &[u8], side: Side) -> Result<()> {
    let (length, room) = (record.len(), row.len());
    let refuse = |why: String| Error::InvalidArgument(format!("record {i}: {why}"));
    let left = room
        .checked_sub(length)
        .ok_or_else(|| refuse(format!("{length} bytes do not fit a row of {room}")))?;
    if left > 0 && left.checked_rem(fill.len()) != Some(0) {
        return Err(refuse(format!("{left} bytes of padding are no multiple of {}", fill.len())));
    }
    let at = if side == Side::Left { left } else { length };
    let (before, behind) =
        row.split_at_mut_checked(at).ok_or_else(|| refuse("no row to write to".to_owned()))?;
    let (place, padding) = if side == Side::Left { (behind, before) } else { (before, behind) };
    place.copy_from_slice(record);
    repeat(padding, fill);
    Ok(())
}

/// Fill `place`, whose length is a multiple of `item`'s.
fn repeat(place: &mut [u8], item: &[u8]) {
    if let [first, rest @ ..] = item
        && rest.iter().all(|byte| byte == first)
    {
        return place.fill(*first);
    }
    let Some(start) = place.get_mut(..item.len()) else { return };
    start.copy_from_slice(item);
    let mut done = item.len();
    while done < place.len() {
        // What is there already, once more: twice as much each time.
        let more = done.min(place.len() - done);
        place.copy_within(..more, done);
        done += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `pad`, an item at a time.
    fn twin(records: &[Vec<u8>], row: usize, fill: &[u8], side: Side) -> Vec<u8> {
        let mut dense = Vec::new();
        for record in records {
            let padding: Vec<u8> = fill.iter().copied().cycle().take(row - record.len()).collect();
            let parts = if side == Side::Left { [&padding, record] } else { [record, &padding] };
            dense.extend(parts.into_iter().flatten());
        }
        dense
    }

    #[test]
    fn rows_are_records_and_padding() {
        for (item, lengths) in [(1, &[3, 0, 17, 1][..]), (4, &[0, 1, 50]), (3, &[7, 7]), (8, &[0, 0])] {
            let records: Vec<Vec<u8>> = lengths
                .iter()
                .map(|&n| (0..n * item).map(|at| u8::try_from(at % 251).unwrap()).collect())
                .collect();
            let longest = records.iter().map(Vec::len).max().unwrap();
            for row in [longest, longest + 5 * item] {
                for fill in [vec![0; item], vec![7; item], (1..).take(item).collect()] {
                    for side in [Side::Left, Side::Right] {
                        let slices = Records::list(records.iter().map(Vec::as_slice).collect());
                        let mut dense = vec![99; row * records.len()];
                        pad(&slices, &mut dense, &fill, side).unwrap();
                        assert_eq!(dense, twin(&records, row, &fill, side));
                    }
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |records: Vec<&[u8]>, bytes: usize, fill: &[u8], text: &str| {
            let error = pad(&Records::list(records), &mut vec![0; bytes], fill, Side::Right).unwrap_err();
            assert!(error.to_string().contains(text), "{error}");
        };
        refused(vec![b"ab", b"abc"], 4, b"x", "record 1: 3 bytes do not fit a row of 2");
        refused(vec![b"a", b""], 0, b"x", "record 0: 1 bytes do not fit a row of 0");
        refused(vec![b"a", b"b"], 3, b"x", "3 bytes are not 2 rows");
        refused(vec![], 3, b"x", "3 bytes are not 0 rows");
        refused(vec![b"a"], 4, b"xy", "record 0: 3 bytes of padding are no multiple of 2");
        refused(vec![b"a"], 4, b"", "record 0: 3 bytes of padding are no multiple of 0");
        pad(&Records::list(vec![]), &mut [], b"x", Side::Left).unwrap();
    }
}
