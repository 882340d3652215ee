//! The walk over an archive. It says which bytes it needs next, so that whoever has them may seek over all others.

use std::collections::HashMap;
use std::mem;

use crate::error::{Error, Result, shown};
use crate::tar::header::{BLOCK, Header, Kind, header, until_nul};
use crate::tar::pax::extended;
use crate::tar::samples::{Samples, split};

/// The longest name or extended header.
const LONGEST: u64 = 1 << 20;
/// The longest header of an array that is kept, as far as it goes beyond the fixed part.
const ARRAY_HEADER: u64 = 1 << 16;
/// In which a NumPy header's length lies.
const PRELUDE: u64 = 12;

/// Which files are arrays in NumPy's format, by their extensions.
#[derive(Debug, Default, Clone)]
pub struct Arrays {
    /// Whole extensions that are, or are not.
    pub named: HashMap<Vec<u8>, bool>,
    /// What is after the last dot of others that are.
    pub last: Vec<Vec<u8>>,
}

impl Arrays {
    fn has(&self, extension: &[u8]) -> bool {
        let last = extension.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
        self.named.get(extension).copied().unwrap_or_else(|| self.last.iter().any(|name| name == last))
    }
}

/// A header of arrays, when it is met first.
#[derive(Debug, PartialEq, Eq)]
pub struct ArrayHeader {
    /// The name of the file.
    pub file: Vec<u8>,
    /// Its first bytes: all of the header, if it is one.
    pub bytes: Vec<u8>,
}

/// What the bytes at the position are.
#[derive(Debug)]
enum State {
    Header,
    /// Data of a member that is about others.
    About {
        kind: Kind,
        size: u64,
    },
    /// The beginning of an array, of which this much is needed.
    Array {
        place: usize,
        file: Vec<u8>,
        size: u64,
        needed: u64,
    },
    /// Only zeros may follow.
    End,
}

/// What is known of the next member before its header.
#[derive(Debug, Default)]
struct Ahead {
    some: bool,
    name: Option<Vec<u8>>,
    size: Option<u64>,
}

/// A walk, from the first byte of an archive to its last.
#[derive(Debug)]
pub struct Walk {
    arrays: Arrays,
    state: State,
    /// Where the bytes that are needed begin.
    position: u64,
    /// Where the next header begins, if this is none.
    next: u64,
    /// Where the last member's data ends.
    end: u64,
    ahead: Ahead,
    samples: Samples,
    numbers: HashMap<Vec<u8>, i64>,
    fresh: Vec<ArrayHeader>,
}

impl Walk {
    /// At the beginning of an archive.
    pub fn new(arrays: Arrays) -> Self {
        Self {
            arrays,
            state: State::Header,
            position: 0,
            next: 0,
            end: 0,
            ahead: Ahead::default(),
            samples: Samples::default(),
            numbers: HashMap::new(),
            fresh: Vec::new(),
        }
    }

    /// Where in the archive it goes on, and how many bytes it needs from there on at least.
    pub fn wanted(&self) -> (u64, u64) {
        let size = match self.state {
            State::Header => BLOCK as u64,
            State::About { size, .. } => size,
            State::Array { needed, .. } => needed,
            State::End => 1,
        };
        (self.position, size)
    }

    /// Go on, as far as `bytes` suffice, of which the first is byte `base` of the archive.
    pub fn feed(&mut self, bytes: &[u8], base: u64) -> Result<()> {
        loop {
            let (position, size) = self.wanted();
            let from = position.checked_sub(base).and_then(|from| usize::try_from(from).ok());
            let Some(rest) = from.and_then(|from| bytes.get(from..)) else { return Ok(()) };
            let piece = usize::try_from(size).ok().and_then(|size| rest.get(..size));
            let Some(piece) = piece else { return Ok(()) };
            match mem::replace(&mut self.state, State::Header) {
                State::Header => self.header(piece)?,
                State::About { kind, .. } => self.about(kind, piece)?,
                State::Array { place, file, size, .. } => self.array(place, file, size, piece),
                State::End => {
                    self.trailing(rest)?;
                    return Ok(());
                }
            }
        }
    }

    /// The archive has so many bytes, and all that were wanted were given.
    pub fn finish(&self, length: u64) -> Result<()> {
        let (position, size) = self.wanted();
        match self.state {
            State::End => Ok(()),
            State::Header if position <= length => {
                Err(Error::TarHeader { offset: position, found: "the end of the file" })
            }
            State::Header => Err(Error::TarCut { expected: position, found: length }),
            _ => Err(Error::TarCut { expected: position.saturating_add(size), found: length }),
        }
    }

    /// The headers of arrays that were met since the last call: the first is that with the next number.
    pub fn fresh_headers(&mut self) -> Vec<ArrayHeader> {
        mem::take(&mut self.fresh)
    }

    /// What was found.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// The same, taken out.
    pub fn into_samples(self) -> Samples {
        self.samples
    }

    fn header(&mut self, piece: &[u8]) -> Result<()> {
        let offset = self.position;
        let damaged = |found| Error::TarHeader { offset, found };
        let block: &[u8; BLOCK] = piece.try_into().map_err(|_| damaged("the end of the file"))?;
        if block.iter().all(|byte| *byte == 0) {
            if self.ahead.some {
                return Err(damaged("the end of the archive after a header that is about the next file"));
            }
            self.state = State::End;
            self.position += BLOCK as u64;
            return Ok(());
        }
        let header = header(block).map_err(damaged)?;
        if matches!(header.kind, Kind::LongName | Kind::LongLink | Kind::Extended | Kind::Global) {
            return self.begin_about(&header);
        }
        let ahead = mem::take(&mut self.ahead);
        let size = ahead.size.unwrap_or(header.size);
        let name = ahead.name.as_deref().unwrap_or(&header.name);
        let start = self.enter(offset, name, size, header.kind.has_data())?;
        self.member(name, header.kind, start, size)
    }

    /// Past a header: where its data begins. Sets where the next header is.
    fn enter(&mut self, offset: u64, name: &[u8], size: u64, has_data: bool) -> Result<i64> {
        let damaged = || Error::TarPlace { name: shown(name), size, offset };
        let start =
            offset.checked_add(BLOCK as u64).filter(|start| *start >= self.end).ok_or_else(damaged)?;
        self.end = start.checked_add(size).ok_or_else(damaged)?;
        let next = if has_data { self.end.checked_next_multiple_of(BLOCK as u64) } else { Some(start) };
        self.next = next.filter(|next| *next < 1 << 63).ok_or_else(damaged)?;
        self.position = self.next;
        i64::try_from(start).map_err(|_| damaged())
    }

    fn begin_about(&mut self, header: &Header<'_>) -> Result<()> {
        let (offset, size) = (self.position, header.size);
        self.enter(offset, &header.name, size, true)?;
        self.ahead.some |= header.kind != Kind::Global;
        // Where links point to doesn't matter.
        if header.kind != Kind::LongLink {
            if size > LONGEST {
                return Err(Error::TarLong { offset, size, most: LONGEST });
            }
            self.position = offset + BLOCK as u64;
            self.state = State::About { kind: header.kind, size };
        }
        Ok(())
    }

    fn about(&mut self, kind: Kind, content: &[u8]) -> Result<()> {
        let offset = self.position;
        self.position = self.next;
        if kind == Kind::LongName {
            // Of several the first counts, as in tarfile.
            self.ahead.name.get_or_insert_with(|| until_nul(content).to_vec());
            return Ok(());
        }
        let extended = extended(content).ok_or(Error::TarExtended { offset, found: "other bytes" })?;
        if extended.sparse {
            return Err(Error::TarExtended { offset, found: "that of a sparse file" });
        }
        if kind == Kind::Global {
            return if extended.path.is_some() || extended.size.is_some() {
                Err(Error::TarExtended { offset, found: "a name or a size for all files" })
            } else {
                Ok(())
            };
        }
        if let Some(path) = extended.path {
            self.ahead.name.get_or_insert_with(|| path.to_vec());
        }
        self.ahead.size = self.ahead.size.or(extended.size);
        Ok(())
    }

    fn member(&mut self, name: &[u8], kind: Kind, start: i64, size: u64) -> Result<()> {
        let refused = |what| Err(Error::TarMember { name: shown(name), what });
        let found = if kind == Kind::Directory { None } else { split(name) };
        match (kind, found) {
            (Kind::Sparse, _) => refused("a sparse file"),
            (_, None) => Ok(()),
            (Kind::File, Some((key, extension))) => {
                let signed = i64::try_from(size).unwrap_or(i64::MAX);
                let place = self.samples.put(key, &extension, start, signed)?;
                if self.arrays.has(&extension) {
                    self.position = start.cast_unsigned();
                    let file = name.to_vec();
                    self.state = State::Array { place, file, size, needed: size.min(PRELUDE) };
                }
                Ok(())
            }
            (Kind::Link, _) => refused("a link"),
            _ => refused("no regular file"),
        }
    }

    /// The beginning of an array; most have a header that is known.
    fn array(&mut self, place: usize, file: Vec<u8>, size: u64, piece: &[u8]) {
        let needed = array_header(piece).min(size);
        if needed > piece.len() as u64 {
            self.state = State::Array { place, file, size, needed };
            return;
        }
        let bytes = usize::try_from(needed).ok().and_then(|needed| piece.get(..needed)).unwrap_or(piece);
        let number = self.numbers.get(bytes).copied().unwrap_or_else(|| {
            let number = i64::try_from(self.numbers.len()).unwrap_or(i64::MAX);
            self.numbers.insert(bytes.to_vec(), number);
            self.fresh.push(ArrayHeader { file, bytes: bytes.to_vec() });
            number
        });
        self.samples.set_header(place, number);
        self.position = self.next;
    }

    fn trailing(&mut self, rest: &[u8]) -> Result<()> {
        self.state = State::End;
        if let Some(at) = rest.iter().position(|byte| *byte != 0) {
            return Err(Error::TarBehind { offset: self.position.saturating_add(at as u64) });
        }
        self.position = self.position.saturating_add(rest.len() as u64);
        Ok(())
    }
}

/// How many bytes the header of an array has, by its first twelve; those themselves where it is none, or one too long.
fn array_header(start: &[u8]) -> u64 {
    let length = match start {
        [0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, a, b, ..] => 10 + u64::from(u16::from_le_bytes([*a, *b])),
        [0x93, b'N', b'U', b'M', b'P', b'Y', 2 | 3, _, a, b, c, d, ..] => {
            12 + u64::from(u32::from_le_bytes([*a, *b, *c, *d]))
        }
        _ => PRELUDE,
    };
    if length > PRELUDE + ARRAY_HEADER { PRELUDE } else { length }
}
