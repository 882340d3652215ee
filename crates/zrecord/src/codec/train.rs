//! Training a dictionary on samples of the records it is for.

use super::CodecError;

/// zstd trains on three quarters of the samples and needs five of them there, and one to try the result on.
const LEAST_SAMPLES: usize = 8;
/// zstd's trainer takes for granted that there are eight bytes to train on. Below a few hundred there is nothing to find.
const LEAST_BYTES: u64 = 512;
/// The smallest dictionary that zstd makes.
const LEAST_TARGET: usize = 256;

/// Trains a zstd dictionary of at most `target` bytes on `samples`: records one after the other, with `sizes[i]` bytes
/// of record `i`. Best are some hundred times as many bytes of samples as of dictionary, from all over the data.
/// The same samples give the same dictionary. The method is zstd's fast cover.
///
/// # Errors
/// If the sizes do not sum to the bytes of the samples, if these are too few or too many (4 GiB), if `target` is less
/// than 256 bytes, or if zstd finds nothing that the samples share.
pub fn build_dict(samples: &[u8], sizes: &[u64], target: usize) -> Result<Vec<u8>, CodecError> {
    let found: u128 = sizes.iter().map(|size| u128::from(*size)).sum();
    if found != samples.len() as u128 {
        return Err(CodecError::SampleSizes { found, expected: samples.len() });
    }
    if target < LEAST_TARGET {
        return Err(CodecError::TargetTooSmall { found: target, least: LEAST_TARGET });
    }
    // Each size is at most the sum, which is a length in memory.
    let sizes: Vec<usize> =
        sizes.iter().filter_map(|size| usize::try_from(*size).ok()).filter(|size| *size > 0).collect();
    let found = samples.len().max(sizes.len());
    if found as u64 >= u64::from(u32::MAX) {
        return Err(CodecError::TooManySamples { found, limit: u32::MAX });
    }
    let bytes = sizes.iter().take(sizes.len() * 3 / 4).map(|size| *size as u64).sum();
    if sizes.len() < LEAST_SAMPLES || bytes < LEAST_BYTES {
        return Err(CodecError::TooFewSamples {
            samples: sizes.len(),
            bytes,
            least_samples: LEAST_SAMPLES,
            least_bytes: LEAST_BYTES,
        });
    }
    // More than all samples and a header can't come out, whatever the target.
    let capacity = target.min(samples.len() + LEAST_TARGET);
    let mut dictionary = Vec::new();
    dictionary
        .try_reserve_exact(capacity)
        .map_err(|_| CodecError::OutOfMemory { purpose: "a dictionary" })?;
    zstd_safe::train_from_buffer(&mut dictionary, samples, &sizes)
        .map_err(|code| CodecError::Training { reason: zstd_safe::get_error_name(code) })?;
    Ok(dictionary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Dictionary, samples};

    fn train(records: &[Vec<u8>], target: usize) -> Result<Vec<u8>, CodecError> {
        let sizes: Vec<u64> = records.iter().map(|record| record.len() as u64).collect();
        build_dict(&records.concat(), &sizes, target)
    }

    #[test]
    fn a_dictionary_is_within_its_target_and_loads() {
        let records = samples::records(1000);
        for target in [256, 1000, 32 << 10, usize::MAX] {
            let bytes = train(&records, target).unwrap();
            assert!(bytes.len() <= target, "{} bytes for a target of {target}", bytes.len());
            Dictionary::new(bytes).unwrap();
        }
    }

    #[test]
    fn the_same_samples_give_the_same_dictionary() {
        let records = samples::records(200);
        assert_eq!(train(&records, 2048).unwrap(), train(&records, 2048).unwrap());
    }

    #[test]
    fn empty_records_do_no_harm() {
        let mut records = samples::records(100);
        let without = train(&records, 2048).unwrap();
        (0..50).for_each(|place| records.insert(place * 2, Vec::new()));
        assert_eq!(train(&records, 2048).unwrap(), without);
    }

    #[test]
    fn sizes_must_describe_the_samples() {
        for sizes in [&[][..], &[3, 3], &[u64::MAX, 8], &[u64::MAX, u64::MAX]] {
            let error = build_dict(b"sample!", sizes, 4096).unwrap_err();
            assert!(matches!(error, CodecError::SampleSizes { expected: 7, .. }), "{error}");
        }
    }

    #[test]
    fn too_few_or_too_small_samples_are_refused() {
        let no_records: [Vec<u8>; 0] = [];
        let uneven = [vec![vec![1u8]; 30], vec![vec![2; 4000]; 5]].concat();
        for records in [&no_records[..], &samples::records(7), &vec![vec![1]; 100], &uneven] {
            let error = train(records, 4096).unwrap_err();
            assert!(matches!(error, CodecError::TooFewSamples { .. }), "{error}");
        }
    }

    #[test]
    fn a_target_that_is_too_small_is_refused() {
        let error = train(&samples::records(100), 255).unwrap_err();
        assert!(matches!(error, CodecError::TargetTooSmall { found: 255, least: 256 }), "{error}");
    }

    #[test]
    fn samples_of_any_kind_train_or_are_refused() {
        let constant = vec![vec![7u8; 100]; 100];
        let noise: Vec<Vec<u8>> = samples::records(100)
            .iter()
            .map(|record| {
                record.iter().zip(1u8..).map(|(byte, place)| byte.wrapping_mul(167) ^ place).collect()
            })
            .collect();
        let short = vec![vec![1u8, 2, 3]; 300];
        for records in [constant, noise, short] {
            match train(&records, 4096) {
                Ok(bytes) => drop(Dictionary::new(bytes).unwrap()),
                Err(error) => assert!(matches!(error, CodecError::Training { .. }), "{error}"),
            }
        }
    }
}
