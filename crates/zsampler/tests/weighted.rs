//! The laws of weighted draws, and their chances.

#![expect(clippy::cast_possible_truncation, reason = "indices that are counted here are small")]

use proptest::prelude::*;
use zsampler::{Error, MAX_BATCH_SIZE, MAX_STEP, Weighted};

#[expect(clippy::unwrap_used, reason = "test code outside of a test function")]
fn weighted(weights: &[f64], batch_size: u64, seed: u64) -> Weighted {
    Weighted::new(weights, batch_size, seed).unwrap()
}

/// How many standard deviations the chi-square statistic lies above its mean, where cells are expected in proportion to
/// `shares`. See `uniformity.rs` for the bound.
#[track_caller]
fn assert_shares(what: &str, counts: &[u32], shares: &[f64]) {
    let (drawn, sum) =
        (counts.iter().map(|&count| f64::from(count)).sum::<f64>(), shares.iter().sum::<f64>());
    let (mut statistic, mut cells) = (0.0, 0.0);
    for (&count, &share) in counts.iter().zip(shares) {
        let expected = drawn * share / sum;
        if share == 0.0 {
            assert_eq!(count, 0, "{what}");
            continue;
        }
        assert!(expected >= 5.0, "{what}: too few draws to tell");
        statistic += (f64::from(count) - expected).powi(2) / expected;
        cells += 1.0;
    }
    let free: f64 = cells - 1.0;
    let deviations = (statistic - free) / (2.0 * free).sqrt();
    assert!(deviations.abs() < 6.0, "{what}: {deviations:.1} standard deviations");
}

proptest! {
    #[test]
    fn every_part_of_a_batch_is_a_slice_of_it(
        weights in prop::collection::vec(0.5..1.0, 1..50), size in 1..600_u64, seed: u64,
        step in prop_oneof![0..100_u64, 0..=MAX_STEP, Just(u64::MAX)], cuts: [prop::sample::Index; 2],
    ) {
        let weighted = weighted(&weights, size, seed);
        let batch = weighted.batch_at(step);
        prop_assert_eq!(batch.len() as u64, size);
        prop_assert!(batch.iter().all(|&index| index < weighted.length()));
        let mut cuts = cuts.map(|cut| cut.index(batch.len() + 1));
        cuts.sort_unstable();
        let [start, end] = cuts;
        let mut part = vec![u64::MAX; end - start];
        weighted.fill_range(step, start as u64, &mut part).unwrap();
        prop_assert_eq!(&part, &batch[start..end]);
    }

    #[test]
    fn it_is_one_stream_whatever_the_batch_size(
        weights in prop::collection::vec(0.5..1.0, 1..50), sizes in [1..=50_u64, 1..=50], seed: u64,
    ) {
        let [one, other] = sizes.map(|size| {
            let weighted = weighted(&weights, size, seed);
            (0..).flat_map(|step| weighted.batch_at(step)).take(200).collect::<Vec<_>>()
        });
        prop_assert_eq!(one, other);
    }
}

#[test]
fn draws_are_in_proportion_and_so_are_neighbours() {
    for weights in [
        &[1.0, 1.0][..],
        &[1.0, 3.0],
        &[0.0, 2.0, 1.0, 0.0],
        &[0.1, 0.2, 0.3, 0.4],
        &[10.0, 1.0, 1.0, 1.0, 1.0, 0.1],
        &[1e-9, 1e-9, 2e-9],
        &[5e-324, 1e-323, 1.5e-323],
    ] {
        let n = weights.len();
        let weighted = weighted(weights, 8192, 42);
        let draws: Vec<u64> = (0..25).flat_map(|step| weighted.batch_at(step)).collect();
        let mut single = vec![0; n];
        let mut pairs = vec![0; n * n];
        for pair in draws.chunks_exact(2) {
            single[pair[0] as usize] += 1;
            single[pair[1] as usize] += 1;
            pairs[pair[0] as usize * n + pair[1] as usize] += 1;
        }
        assert_shares(&format!("single draws of {weights:?}"), &single, weights);
        let sum: f64 = weights.iter().sum();
        let products: Vec<f64> =
            weights.iter().flat_map(|a| weights.iter().map(move |b| a / sum * (b / sum))).collect();
        assert_shares(&format!("pairs of draws of {weights:?}"), &pairs, &products);
    }
}

#[test]
fn many_weights_are_drawn_in_proportion() {
    let weights: Vec<f64> = (0..1000).map(|item| f64::from(item % 37)).collect();
    let weighted = weighted(&weights, 8192, 7);
    let mut counts = vec![0; weights.len()];
    for index in (0..200).flat_map(|step| weighted.batch_at(step)) {
        counts[index as usize] += 1;
    }
    assert_shares("a thousand weights", &counts, &weights);
}

#[test]
fn one_place_over_seeds_or_steps_is_in_proportion_and_neighbours_are_independent() {
    let weights = [1.0, 2.0, 3.0, 4.0];
    let products: Vec<f64> = weights.iter().flat_map(|a| weights.iter().map(move |b| a * b)).collect();
    let (mut seeds, mut steps) = (vec![0; 4], vec![0; 4]);
    let (mut beside, mut after) = (vec![0; 16], vec![0; 16]);
    for seed in 0..20_000 {
        let [one, other] = [seed, seed + 1].map(|seed| weighted(&weights, 3, seed));
        let (here, there, next) = (one.batch_at(1)[1], other.batch_at(1)[1], one.batch_at(2)[1]);
        seeds[here as usize] += 1;
        beside[(here * 4 + there) as usize] += 1;
        after[(here * 4 + next) as usize] += 1;
        steps[weighted(&weights, 3, 99).batch_at(seed)[1] as usize] += 1;
    }
    assert_shares("over seeds", &seeds, &weights);
    assert_shares("over steps", &steps, &weights);
    assert_shares("seed and seed + 1", &beside, &products);
    assert_shares("step and step + 1", &after, &products);
}

#[test]
fn what_has_no_weight_never_comes() {
    for weights in
        [&[0.0, 0.0, 1.0][..], &[1e-300, 1.0], &[0.0, 0.3, 0.0, 0.1, 0.0, 0.7, 0.0], &[0.0, 5e-324]]
    {
        let weighted = weighted(weights, 10_000, 3);
        for step in [0, 1, MAX_STEP] {
            let batch = weighted.batch_at(step);
            assert!(
                batch.iter().all(|&index| weights[index as usize] > 0.0 && weights[index as usize] != 1e-300)
            );
        }
    }
    assert_eq!(weighted(&[0.5], 4, 9).batch_at(MAX_STEP), [0, 0, 0, 0]);
}

#[test]
fn the_largest_batch_at_the_last_step_does_not_wrap() {
    // Two batch sizes of which the streams meet: the last places of a huge batch are a small one's.
    let weights = [1.0, 2.0, 3.0];
    let mut part = [u64::MAX; 4];
    let huge = weighted(&weights, MAX_BATCH_SIZE, 42);
    huge.fill_range(MAX_STEP, MAX_BATCH_SIZE - 4, &mut part).unwrap();
    assert!(part.iter().all(|&index| index < 3));
    // Across the end of a key's counters, 2^64 positions.
    let size = 1 << 40;
    let mut across = [u64::MAX; 8];
    weighted(&weights, size, 42).fill_range((1 << 24) - 1, size - 8, &mut across).unwrap();
    let mut beyond = [u64::MAX; 8];
    weighted(&weights, size, 42).fill_range(1 << 24, 0, &mut beyond).unwrap();
    let mut both = [u64::MAX; 16];
    let shifted = size + 8;
    let position = (1_u128 << 64) - 8;
    let (step, start) = ((position / u128::from(shifted)) as u64, (position % u128::from(shifted)) as u64);
    assert!(start + 16 <= shifted, "both lie in one batch");
    weighted(&weights, shifted, 42).fill_range(step, start, &mut both).unwrap();
    assert_eq!(both[..8], across);
    assert_eq!(both[8..], beyond);
}

#[test]
fn it_tells_what_it_was_made_of() {
    let weighted = weighted(&[1.0, 2.0], 3, 99);
    let told = (weighted.length(), weighted.batch_size(), weighted.seed());
    assert_eq!(told, (2, 3, 99));
    assert_eq!(weighted.clone().batch_at(5), weighted.batch_at(5));
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refused = |weights: &[f64]| Weighted::new(weights, 2, 0).unwrap_err();
    assert_eq!(refused(&[]), Error::NoWeights);
    assert_eq!(refused(&[0.0, -0.0, 0.0]), Error::ZeroWeights { count: 3 });
    assert_eq!(refused(&[f64::MAX, 1e308]), Error::WeightsOverflow { count: 2 });
    assert_eq!(refused(&[1.0, -0.5]), Error::BadWeight { index: 1, weight: -0.5 });
    for (weights, message) in [
        (&[1.0, f64::NAN][..], "weight 1 is NaN, but a weight must be a finite number of at least 0"),
        (&[f64::INFINITY], "weight 0 is inf, but a weight must be a finite number of at least 0"),
        (&[1.0, 2.0, -1e-300], "weight 2 is -1e-300, but a weight must be a finite number of at least 0"),
        (&[0.0, 0.0], "all 2 weights are 0, but at least one must be more"),
        (
            &[1e308, 1e308],
            "the sum of the 2 weights exceeds 1.7976931348623157e308, the largest number there is",
        ),
    ] {
        assert_eq!(refused(weights).to_string(), message);
    }
    let batch_size = MAX_BATCH_SIZE + 1;
    assert_eq!(Weighted::new(&[1.0], 0, 0).unwrap_err(), Error::EmptyBatch);
    assert_eq!(Weighted::new(&[1.0], batch_size, 0).unwrap_err(), Error::BatchTooLarge { batch_size });

    let mut out = [77; 5];
    let weighted = weighted(&[1.0], 4, 0);
    for (start, count) in [(0, 5), (1, 4), (4, 1), (5, 0), (u64::MAX, 1)] {
        let refused = weighted.fill_range(0, start, &mut out[..count]);
        assert_eq!(refused, Err(Error::RangeBeyondBatch { start, count: count as u64, batch_size: 4 }));
    }
    assert_eq!(out, [77; 5]);
    assert_eq!(weighted.fill_range(0, 4, &mut []), Ok(()));
}
