//! Which matches are worth looking for, found out on samples of what is appended.
//!
//! In the noise of a camera, or in numbers of a few bytes, short repetitions are chance. zstd's lower levels take them wherever they are, and each
//! one costs time to find, time to copy when the record is read, and often more bytes than it saves. In text they are what there is to save. So samples
//! are encoded both ways, and long matches alone are looked for where that takes no more bytes than the level does.
//!
//! The choice is made of the records and those before them, and of nothing else: the same calls store the same bytes, on any machine.

use super::Records;
use crate::codec::{CodecError, Encoder};

/// Of so many bytes one is sampled.
const EVERY: u64 = 512;
/// As much of a record as is sampled, and as a writer samples before anything else. zstd's levels mean something else by the size of a record, up to 256 KiB.
const SAMPLE: usize = 512 << 10;
/// What a call costs, in bytes: records of a few bytes take no more time to sample than long ones.
const CALL: u64 = 256;
/// What is needed for the longest sample, whose like may come once in a while.
const MOST_CREDIT: u64 = price(SAMPLE);
/// Samples of an append that take so many bytes say enough if they differ by one byte in so many.
const ENOUGH: u64 = 32 << 10;
const CLEAR: u64 = 64;
/// Samples beyond so many bytes count half as much as those that come after them.
const RECENT: u64 = 256 << 10;

/// What the samples of one writer say.
#[derive(Debug)]
pub(super) struct Trial {
    /// Bytes that were appended, and not yet sampled for.
    credit: u64,
    taken: Taken,
}

/// Bytes that samples took, by what was looked for.
#[derive(Clone, Copy, Default, Debug)]
struct Taken {
    calls: u64,
    of_level: u64,
    long: u64,
}

impl Default for Trial {
    fn default() -> Self {
        Self { credit: MOST_CREDIT, taken: Taken::default() }
    }
}

impl Trial {
    /// The encoder for `records`, whose samples take part in the choice: `encoder`, or one like it that looks for other matches.
    pub(super) fn choose(&mut self, records: &Records<'_>, encoder: Encoder) -> Result<Encoder, CodecError> {
        let Some(long) = encoder.with_long_matches() else { return Ok(encoder) };
        self.sample(records, &encoder, &long)?;
        Ok(if self.taken.is_less_with_long() { long } else { encoder })
    }

    /// Encode some of `records` both ways, as far as the credit goes or until the difference is clear.
    fn sample(
        &mut self,
        records: &Records<'_>,
        of_level: &Encoder,
        long: &Encoder,
    ) -> Result<(), CodecError> {
        let count = records.len();
        let earned = (count as u64).saturating_mul(CALL).saturating_add(records.bytes() as u64);
        self.credit = self.credit.saturating_add(earned).min(MOST_CREDIT);
        let (mut found, mut scratch) = (Taken::default(), Vec::new());
        for record in (0..count).map(|k| records.get(spread(k, count))) {
            let sample = record.get(..SAMPLE).unwrap_or(record);
            let Some(left) = self.credit.checked_sub(price(sample.len())) else { break };
            self.credit = left;
            found.calls += 1;
            for (encoder, bytes) in [(of_level, &mut found.of_level), (long, &mut found.long)] {
                scratch.clear();
                *bytes += u64::from(encoder.encode(sample, &mut scratch)?);
            }
            if found.is_clear() {
                break;
            }
        }
        self.taken.add(found);
        Ok(())
    }
}

/// The credit that a sample takes.
const fn price(sample: usize) -> u64 {
    (sample as u64 + CALL) * EVERY
}

/// The `k`-th place to look at among `count`: however many are looked at, they lie about evenly (multiples of the golden ratio, modulo 1).
fn spread(k: usize, count: usize) -> usize {
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    // From the middle on: what is first in a data set is seldom like the rest.
    let part = u128::from((k as u64).wrapping_mul(GOLDEN).wrapping_add(1 << 63));
    usize::try_from((part * count as u128) >> 64).unwrap_or(0)
}

impl Taken {
    /// Where neither finds anything to match, looking less is quicker, unless the call is what takes the time.
    fn is_less_with_long(self) -> bool {
        self.long < self.of_level || self.long == self.of_level && self.of_level > self.calls * CALL
    }

    fn is_clear(self) -> bool {
        self.of_level >= ENOUGH && self.of_level.abs_diff(self.long) > self.of_level / CLEAR
    }

    fn add(&mut self, later: Self) {
        if later.calls == 0 {
            return;
        }
        if self.of_level > RECENT {
            *self = Self { calls: self.calls / 2, of_level: self.of_level / 2, long: self.long / 2 };
        }
        self.calls += later.calls;
        self.of_level += later.of_level;
        self.long += later.long;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Codec;
    use crate::codec::samples::draws;

    /// Bytes as a camera's noise has them: sums of a few random numbers.
    fn noise(length: usize, seed: u64) -> Vec<u8> {
        let mut draw = draws(seed);
        (0..length).map(|_| (0..4).map(|_| (draw() % 9) as u8).sum::<u8>() + 100).collect()
    }

    /// Words and numbers: short repetitions are what there is to save.
    fn text(length: usize, seed: u64) -> Vec<u8> {
        let words = ["if", "let", "mut", "self", "match", "usize", "return", "record", "->", "::"];
        let mut draw = draws(seed);
        let mut text = String::new();
        while text.len() < length {
            let word = words[(draw() % 10) as usize];
            text += &format!("{word} {:03} ", draw() % 500);
        }
        text.truncate(length);
        text.into_bytes()
    }

    fn encoder(codec: Codec, level: Option<i32>) -> Encoder {
        Encoder::new(codec, level, None).unwrap()
    }

    fn stored(encoder: &Encoder, records: &Records<'_>) -> usize {
        let mut out = Vec::new();
        for i in 0..records.len() {
            encoder.encode(records.get(i), &mut out).unwrap();
        }
        out.len()
    }

    /// Bytes that `records` take as they are encoded after the trial, and as the level alone does.
    fn both(trial: &mut Trial, records: &Records<'_>, level: Option<i32>) -> (usize, usize) {
        let chosen = trial.choose(records, encoder(Codec::Zstd, level)).unwrap();
        (stored(&chosen, records), stored(&encoder(Codec::Zstd, level), records))
    }

    #[test]
    fn noise_takes_fewer_bytes_than_by_its_level_and_text_no_more() {
        for row in [256, 2048, 12 << 10, 200 << 10, 1 << 20] {
            let count = ((1 << 20) / row).max(2);
            let (noise, text) = (noise(row * count, 7), text(row * count, 7));
            let (found, of_level) = both(&mut Trial::default(), &Records::rows(&noise, count).unwrap(), None);
            assert!(found <= of_level, "noise, {row} bytes a record: {found}, {of_level} by its level");
            let (found, of_level) = both(&mut Trial::default(), &Records::rows(&text, count).unwrap(), None);
            assert!(found <= of_level, "text, {row} bytes a record: {found}, {of_level} by its level");
            assert!(
                row > 16 << 10 || found == of_level,
                "text, {row} bytes a record: {found} and {of_level}"
            );
        }
        let noise = noise(16 * (200 << 10), 7);
        let (found, of_level) = both(&mut Trial::default(), &Records::rows(&noise, 16).unwrap(), None);
        assert!(found * 100 < of_level * 99, "{found}, {of_level} by its level");
    }

    #[test]
    fn other_levels_and_codecs_are_taken_at_their_word() {
        let bytes = noise(400_000, 3);
        let records = Records::rows(&bytes, 2).unwrap();
        for level in [-5, 0, 5, 9] {
            let (found, of_level) = both(&mut Trial::default(), &records, Some(level));
            assert_eq!(found, of_level, "level {level}");
        }
        let raw = Trial::default().choose(&records, encoder(Codec::Raw, None)).unwrap();
        assert_eq!(stored(&raw, &records), bytes.len());
    }

    #[test]
    fn many_small_appends_come_to_the_choice_of_one_large_one() {
        let bytes = noise(4 << 20, 5);
        let mut trial = Trial::default();
        let (mut found, mut of_level) = (0, 0);
        for record in bytes.chunks(200 << 10) {
            let (one, other) = both(&mut trial, &Records::list(vec![record]), None);
            (found, of_level) = (found + one, of_level + other);
        }
        assert!(found * 100 < of_level * 99, "{found}, {of_level} by its level");
    }

    #[test]
    fn the_choice_changes_when_the_records_do() {
        let (noise, text) = (noise(20 * (200 << 10), 5), text(4 << 20, 5));
        let mut trial = Trial::default();
        let noise = Records::rows(&noise, 20).unwrap();
        let text = Records::rows(&text, 1024).unwrap();
        for _ in 0..3 {
            both(&mut trial, &noise, None);
        }
        let settled = (0..1000).position(|_| {
            let (found, of_level) = both(&mut trial, &text, None);
            found == of_level
        });
        assert!(settled.is_some_and(|appends| appends < 100), "{settled:?} appends of 4 MiB");
    }

    #[test]
    fn samples_are_few() {
        let bytes = text(1 << 20, 9);
        let records = Records::list(vec![&bytes[..4096]]);
        let mut trial = Trial::default();
        let mut sampled = 0_u64;
        for _ in 0..20_000 {
            let before = trial.credit;
            trial.choose(&records, encoder(Codec::Zstd, None)).unwrap();
            sampled += u64::from(trial.credit < before);
        }
        let most = (MOST_CREDIT + 20_000 * (4096 + CALL)) / price(4096);
        assert!((most / 2..=most).contains(&sampled), "{sampled} of 20000, at most {most}");
        let huge = vec![0; 64 << 20];
        let mut trial = Trial { credit: 0, ..Trial::default() };
        trial.choose(&Records::list(vec![&huge]), encoder(Codec::Zstd, None)).unwrap();
        assert_eq!(trial.taken.of_level, 0, "one record of 64 MiB is no reason to encode half of one more");
    }

    #[test]
    fn places_are_even_however_many_there_are() {
        for count in [1, 2, 10, 1000, usize::MAX >> 8] {
            for looked_at in [1, 3, 16, 100] {
                let mut places: Vec<usize> = (0..looked_at.min(count)).map(|k| spread(k, count)).collect();
                assert!(places.iter().all(|&place| place < count));
                places.sort_unstable();
                places.push(count);
                let widest = places.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
                assert!(
                    widest <= (count / looked_at.min(count)).saturating_mul(3) + 1,
                    "{looked_at} of {count}"
                );
            }
        }
    }
}
