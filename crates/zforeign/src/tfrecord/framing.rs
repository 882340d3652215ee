//! The framing of TFRecord files: u64 length, u32 masked CRC-32C of it, the data, u32 masked CRC-32C of the data; little-endian.

use zrecord::crc32c;

use crate::error::{Error, Result};

/// Bytes before a record's data.
pub const HEADER: usize = 12;
/// Bytes of a record that are not data.
pub const FRAME: u64 = 16;

/// The records that a buffer holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// Where the data of each begins, in the buffer.
    pub starts: Vec<u64>,
    /// How many bytes each has.
    pub lengths: Vec<u64>,
    /// Where the first frame begins that is not all of it here; beyond the buffer where only data is walked over.
    pub end: u64,
    /// Bytes from `end` on that this frame takes, as far as that is known; 0 where not even its length is here.
    pub wanted: u64,
}

/// Walk over the frames that begin in `bytes`, of which the first begins at its first byte.
///
/// With `data` each record must be complete to count, and its checksum is checked. Without, only lengths are: a record counts when its
/// header is here. `base` is where `bytes` lies in its file, for messages.
pub fn walk(bytes: &[u8], base: u64, data: bool) -> Result<Walk> {
    let mut walk = Walk::default();
    loop {
        let Some(rest) = usize::try_from(walk.end).ok().and_then(|at| bytes.get(at..)) else {
            return Ok(walk);
        };
        let Some((header, rest)) = rest.split_first_chunk::<HEADER>() else { return Ok(walk) };
        let offset = base.saturating_add(walk.end);
        let length = length_of(header, offset)?;
        let size = length.checked_add(FRAME).filter(|size| offset.checked_add(*size).is_some());
        let size = size.ok_or(Error::Length { offset, length })?;
        if data && !sound(rest, length, offset)? {
            walk.wanted = size;
            return Ok(walk);
        }
        walk.starts.push(walk.end + 12);
        walk.lengths.push(length);
        walk.end += size;
    }
}

/// The length that a header says.
fn length_of(header: &[u8; HEADER], offset: u64) -> Result<u64> {
    let [a, b, c, d, e, f, g, h, sum @ ..] = header;
    let length = [*a, *b, *c, *d, *e, *f, *g, *h];
    checked(&length, *sum, offset, "length")?;
    Ok(u64::from_le_bytes(length))
}

/// Whether the record's data is here, and then it is what was written.
fn sound(rest: &[u8], length: u64, offset: u64) -> Result<bool> {
    let parts = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    let Some((data, [a, b, c, d, ..])) = parts else { return Ok(false) };
    checked(data, [*a, *b, *c, *d], offset, "data")?;
    Ok(true)
}

fn checked(bytes: &[u8], sum: [u8; 4], offset: u64, what: &'static str) -> Result<()> {
    let (found, expected) = (masked(crc32c(bytes)), u32::from_le_bytes(sum));
    if found == expected { Ok(()) } else { Err(Error::Checksum { offset, what, found, expected }) }
}

/// The sum as it is stored: the sum of bytes that hold their own sum would be of little use.
pub(crate) fn masked(sum: u32) -> u32 {
    sum.rotate_right(15).wrapping_add(0xa282_ead8)
}
