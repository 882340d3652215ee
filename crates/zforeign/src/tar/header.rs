//! The block before each member of an archive.

use std::borrow::Cow;

/// Everything in an archive begins at a multiple of this.
pub(crate) const BLOCK: usize = 512;

/// What a member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Directory,
    Link,
    /// A device or a pipe.
    Special,
    Sparse,
    /// Something of one vendor's, with data.
    Unknown,
    /// The data is the name of the next member.
    LongName,
    /// The data is where the next member points to.
    LongLink,
    /// The data is about the next member.
    Extended,
    /// The data is about all members from here on.
    Global,
}

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    pub(crate) name: Cow<'a, [u8]>,
    pub(crate) size: u64,
    pub(crate) kind: Kind,
}

impl Kind {
    fn of(flag: u8) -> Self {
        match flag {
            0 | b'0' | b'7' => Self::File,
            b'1' | b'2' => Self::Link,
            b'3' | b'4' | b'6' => Self::Special,
            b'5' => Self::Directory,
            b'S' => Self::Sparse,
            b'L' => Self::LongName,
            b'K' => Self::LongLink,
            b'x' | b'X' => Self::Extended,
            b'g' => Self::Global,
            _ => Self::Unknown,
        }
    }

    /// Whether so many bytes as its size says follow its header.
    pub(crate) fn has_data(self) -> bool {
        !matches!(self, Self::Directory | Self::Link | Self::Special)
    }
}

/// The header that a block is, or what is wrong with it.
pub(crate) fn header(block: &[u8; BLOCK]) -> Result<Header<'_>, &'static str> {
    let sum = number(&block[148..156]).ok_or("other bytes")?;
    if !sums(block).contains(&sum) {
        return Err("other bytes");
    }
    // Mode, owner, group, time and device are of no use, but what is no header is told by them too.
    let fields = [
        &block[100..108],
        &block[108..116],
        &block[116..124],
        &block[136..148],
        &block[329..337],
        &block[337..345],
    ];
    if fields.into_iter().any(|field| number(field).is_none()) {
        return Err("a header with a field that is no number");
    }
    let size =
        number(&block[124..136]).and_then(|size| u64::try_from(size).ok()).filter(|size| *size < 1 << 63);
    let size = size.ok_or("a header with a size that no file has")?;
    let (flag, name) = (block[156], until_nul(&block[..100]));
    // Before there were directories, a slash told them.
    let kind = if flag == 0 && name.ends_with(b"/") { Kind::Directory } else { Kind::of(flag) };
    Ok(Header { name: with_prefix(block, name), size, kind })
}

/// Longer names lie in two fields; in GNU's variant something else lies in the second.
fn with_prefix<'a>(block: &'a [u8; BLOCK], name: &'a [u8]) -> Cow<'a, [u8]> {
    let prefix = until_nul(&block[345..500]);
    if prefix.is_empty() || !block[257..].starts_with(b"ustar") || block[257..].starts_with(b"ustar  ") {
        return Cow::Borrowed(name);
    }
    Cow::Owned([prefix, b"/", name].concat())
}

/// The sum of all bytes with blanks in place of the sum itself; some programs took bytes for signed.
fn sums(block: &[u8; BLOCK]) -> [i128; 2] {
    let (mut unsigned, mut negative) = (8 * 32_u32, 0_u32);
    for part in [&block[..148], &block[156..]] {
        unsigned += part.iter().map(|byte| u32::from(*byte)).sum::<u32>();
        negative += part.iter().map(|byte| u32::from(byte >> 7)).sum::<u32>();
    }
    [unsigned.into(), i128::from(unsigned) - 256 * i128::from(negative)]
}

/// Make the checksum right.
#[cfg(any(test, fuzzing))]
pub(crate) fn seal(block: &mut [u8; BLOCK]) {
    let [sum, _] = sums(block);
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// A field's number: octal digits, or after a byte 0x80 or 0xff (negative) binary. None where it is none.
fn number(field: &[u8]) -> Option<i128> {
    let (first, rest) = field.split_first()?;
    if matches!(first, 0x80 | 0xff) {
        // At most 11 bytes.
        let value = rest.iter().fold(0_i128, |value, byte| value << 8 | i128::from(*byte));
        return Some(if *first == 0xff { value - (1 << (8 * rest.len())) } else { value });
    }
    until_nul(field).trim_ascii().iter().try_fold(0_i128, |value, digit| match digit {
        b'0'..=b'7' => Some(value << 3 | i128::from(digit - b'0')),
        _ => None,
    })
}

/// The bytes before the first that is zero.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
