//! The orders there are, under the numbers that the loader's state and the binding use.

use crate::Error;

/// How records follow one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Mode {
    /// `0, 1, 2, ...` through the index space as a circle: a batch at its end goes on at its start, and a batch
    /// larger than the space goes round more than once.
    Sequential = 0,
    /// Each index drawn uniformly and independently, with replacement.
    Iid = 1,
    /// Without replacement: each cycle is a fresh shuffle of all records, cut into full batches. The remainder
    /// that fills no batch is dropped, a different one each cycle.
    Cyclic = 2,
}

impl From<Mode> for u8 {
    fn from(mode: Mode) -> Self {
        mode as Self
    }
}

impl TryFrom<i64> for Mode {
    type Error = Error;

    /// The mode of a number; [`Error::UnknownMode`] if there is none.
    fn try_from(mode: i64) -> Result<Self, Error> {
        match mode {
            0 => Ok(Self::Sequential),
            1 => Ok(Self::Iid),
            2 => Ok(Self::Cyclic),
            _ => Err(Error::UnknownMode { mode }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_modes_are_inverse() {
        for mode in [Mode::Sequential, Mode::Iid, Mode::Cyclic] {
            assert_eq!(Mode::try_from(i64::from(u8::from(mode))), Ok(mode));
        }
        for mode in [-1, 3, i64::MIN, i64::MAX, 256] {
            assert_eq!(Mode::try_from(mode), Err(Error::UnknownMode { mode }));
        }
    }
}
