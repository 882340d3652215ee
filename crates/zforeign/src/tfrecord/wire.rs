//! The wire format of protocol buffers, as far as `tf.train.Example` uses it.

/// A field of a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Field<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 2.
    Bytes(&'a [u8]),
    /// Wire type 5.
    Word([u8; 4]),
}

/// The fields of a message, as (number, field). Ends after the first fault, which is None.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn read(&mut self) -> Option<(u64, Field<'a>)> {
        let tag = varint(&mut self.rest)?;
        let field = match tag & 7 {
            0 => Field::Varint(varint(&mut self.rest)?),
            2 => {
                let length = usize::try_from(varint(&mut self.rest)?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(length)?;
                self.rest = rest;
                Field::Bytes(bytes)
            }
            5 => {
                let (word, rest) = self.rest.split_first_chunk()?;
                self.rest = rest;
                Field::Word(*word)
            }
            _ => return None,
        };
        Some((tag >> 3, field))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Field<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Take a number off the front. None where it doesn't end, or has more than 64 bits.
#[inline]
pub(crate) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for at in 0..10 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        if at == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
