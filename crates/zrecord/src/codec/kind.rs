//! The codecs by tag, name and level.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use super::CodecError;

/// How the records of a store are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    /// As they are.
    Raw,
    /// Each record is a zstd frame of its own.
    Zstd,
    /// Each record is a zstd frame that refers to the store's dictionary.
    ZstdDict,
}

impl Codec {
    /// All codecs, in the order of their tags.
    pub const ALL: [Self; 3] = [Self::Raw, Self::Zstd, Self::ZstdDict];

    /// The codec's byte in the header of a store.
    #[must_use]
    pub const fn tag(self) -> u8 {
        match self {
            Self::Raw => 0,
            Self::Zstd => 1,
            Self::ZstdDict => 2,
        }
    }

    /// The codec of a header's byte, `None` if there is no such codec.
    #[must_use]
    pub const fn from_tag(tag: u8) -> Option<Self> {
        match tag {
            0 => Some(Self::Raw),
            1 => Some(Self::Zstd),
            2 => Some(Self::ZstdDict),
            _ => None,
        }
    }

    /// The codec's public name: `raw`, `zstd` or `zstd_dict`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zstd => "zstd",
            Self::ZstdDict => "zstd_dict",
        }
    }

    /// The level that is used when none is asked for; `None` for a codec without levels.
    #[must_use]
    pub const fn default_level(self) -> Option<i32> {
        match self {
            Self::Raw => None,
            Self::Zstd => Some(3),
            Self::ZstdDict => Some(19),
        }
    }

    /// The levels that the codec takes; `None` for a codec without levels.
    #[must_use]
    pub fn level_range(self) -> Option<RangeInclusive<i32>> {
        match self {
            Self::Raw => None,
            Self::Zstd | Self::ZstdDict => Some(zstd_safe::min_c_level()..=zstd_safe::max_c_level()),
        }
    }

    /// The level to use when `level` is asked for.
    ///
    /// # Errors
    /// If the codec has no levels, or not this one.
    pub fn check_level(self, level: Option<i32>) -> Result<Option<i32>, CodecError> {
        let Some(found) = level else { return Ok(self.default_level()) };
        match self.level_range() {
            None => Err(CodecError::NoLevels { codec: self, found }),
            Some(range) if range.contains(&found) => Ok(Some(found)),
            Some(range) => {
                let (lowest, highest) = range.into_inner();
                Err(CodecError::LevelOutOfRange { codec: self, found, lowest, highest })
            }
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Codec {
    type Err = CodecError;

    fn from_str(name: &str) -> Result<Self, CodecError> {
        let known = Self::ALL.into_iter().find(|codec| codec.name() == name);
        known.ok_or_else(|| CodecError::UnknownName { found: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_names_lead_back_to_the_codec() {
        for (tag, codec) in (0u8..).zip(Codec::ALL) {
            assert_eq!(codec.tag(), tag);
            assert_eq!(Codec::from_tag(tag), Some(codec));
            assert_eq!(codec.name().parse::<Codec>().unwrap(), codec);
        }
        assert_eq!(Codec::from_tag(3), None);
    }

    #[test]
    fn an_unknown_name_is_refused_by_name() {
        let error = "lz4".parse::<Codec>().unwrap_err();
        assert_eq!(error.to_string(), "there is no codec `lz4`, expected `raw`, `zstd` or `zstd_dict`");
    }

    #[test]
    fn a_level_is_the_default_or_one_in_range() {
        assert_eq!(Codec::Raw.check_level(None).unwrap(), None);
        assert_eq!(Codec::Zstd.check_level(None).unwrap(), Some(3));
        assert_eq!(Codec::ZstdDict.check_level(None).unwrap(), Some(19));
        assert_eq!(Codec::Zstd.check_level(Some(-5)).unwrap(), Some(-5));
        assert_eq!(Codec::Zstd.check_level(Some(22)).unwrap(), Some(22));
        let error = Codec::Zstd.check_level(Some(23)).unwrap_err();
        assert!(matches!(error, CodecError::LevelOutOfRange { found: 23, highest: 22, .. }), "{error}");
        let error = Codec::Raw.check_level(Some(1)).unwrap_err();
        assert!(matches!(error, CodecError::NoLevels { found: 1, .. }), "{error}");
    }
}
