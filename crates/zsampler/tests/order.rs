//! The order is a contract: the frozen vectors, a naive twin and the crate agree.

#[expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside of a test function"
)]
mod twin;

use proptest::prelude::*;
use zsampler::{Bucketed, MAX_STEP, Mixture, Mode, ORDER_VERSION, Sampler, Weighted};

const GOLDEN: &str = include_str!("../golden/order-v1.txt");
const WEIGHTED: &str = include_str!("../golden/weighted-v1.txt");
const MIXTURES: &str = include_str!("../golden/mixture-v1.txt");
const BUCKETS: &str = include_str!("../golden/bucketed-v1.txt");

#[test]
fn the_frozen_vectors_are_those_of_this_order_version() {
    assert_eq!(ORDER_VERSION, 1);
    assert!(GOLDEN.starts_with(&format!("# Frozen batches of order version {ORDER_VERSION}.")));
    assert!(
        WEIGHTED.starts_with(&format!("# Frozen batches of weighted draws, order version {ORDER_VERSION}."))
    );
    assert!(MIXTURES.starts_with(&format!("# Frozen batches of mixtures, order version {ORDER_VERSION}.")));
    assert!(BUCKETS.starts_with(&format!("# Frozen batches of buckets, order version {ORDER_VERSION}.")));
}

#[expect(clippy::panic, reason = "test code outside of a test function")]
fn mode(name: &str) -> Mode {
    match name {
        "sequential" => Mode::Sequential,
        "iid" => Mode::Iid,
        "cyclic" => Mode::Cyclic,
        name => panic!("unknown mode {name}"),
    }
}

#[expect(clippy::unwrap_used, reason = "test code outside of a test function")]
fn numbers<T: std::str::FromStr<Err: std::fmt::Debug>>(list: &str, separator: char) -> Vec<T> {
    list.split(separator).map(|number| number.parse().unwrap()).collect()
}

#[test]
fn crate_and_twin_give_the_frozen_batches() {
    let mut compared = 0;
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        let (query, indices) = line.split_once(": ").unwrap();
        let query: Vec<&str> = query.split(' ').collect();
        let mode = mode(query[0]);
        let numbers: Vec<u64> = query[1..].iter().map(|number| number.parse().unwrap()).collect();
        let [length, batch_size, seed, step] = numbers[..] else { panic!("four numbers in {line}") };
        let frozen: Vec<u64> = indices.split(' ').map(|index| index.parse().unwrap()).collect();

        let sampler = Sampler::new(length, batch_size, mode, seed).unwrap();
        assert_eq!(sampler.batch_at(step), frozen, "the crate, {line}");
        assert_eq!(twin::batch(length, batch_size, mode, seed, step), frozen, "the twin, {line}");
        compared += 1;
    }
    assert!(compared > 300, "only {compared} vectors");
}

#[test]
fn crate_and_twin_give_the_frozen_weighted_batches() {
    let mut compared = 0;
    for line in WEIGHTED.lines().filter(|line| !line.starts_with('#')) {
        let (query, indices) = line.split_once(": ").unwrap();
        let (query, weights) = query.rsplit_once(' ').unwrap();
        let [batch_size, seed, step] = numbers(query, ' ')[..] else { panic!("three numbers in {line}") };
        let (weights, frozen): (Vec<f64>, Vec<u64>) = (numbers(weights, ','), numbers(indices, ' '));
        let weighted = Weighted::new(&weights, batch_size, seed).unwrap();
        assert_eq!(weighted.batch_at(step), frozen, "the crate, {line}");
        assert_eq!(twin::weighted(&weights, batch_size, seed, step), frozen, "the twin, {line}");
        compared += 1;
    }
    assert!(compared > 80, "only {compared} vectors");
}

#[test]
fn crate_and_twin_give_the_frozen_mixtures() {
    let mut compared = 0;
    for line in MIXTURES.lines().filter(|line| !line.starts_with('#')) {
        let (query, places) = line.split_once(": ").unwrap();
        let query: Vec<&str> = query.split(' ').collect();
        let [name, batch_size, seed, step, lengths, schedule] = query[..] else {
            panic!("six words in {line}")
        };
        let mode = mode(name);
        let [batch_size, seed, step] = [batch_size, seed, step].map(|number| number.parse().unwrap());
        let lengths: Vec<u64> = numbers(lengths, ',');
        let exact = schedule.starts_with('!');
        let schedule: Vec<(u64, Vec<f64>)> = schedule
            .trim_start_matches('!')
            .split(';')
            .map(|entry| entry.split_once('=').unwrap())
            .map(|(from, weights)| (from.parse().unwrap(), numbers(weights, ',')))
            .collect();
        let frozen: Vec<(u32, u64)> = places
            .split(' ')
            .map(|place| place.split_once('/').unwrap())
            .map(|(source, index)| (source.parse().unwrap(), index.parse().unwrap()))
            .collect();

        let mixture = Mixture::new(&lengths, batch_size, mode, seed, &schedule, exact).unwrap();
        let (sources, indices) = mixture.batch_at(step);
        assert!(sources.into_iter().zip(indices).eq(frozen.iter().copied()), "the crate, {line}");
        // At a near step the fractions of a share that is a count are still that count.
        if !exact || step < 1_000_000 {
            let twin = twin::mixture(&lengths, batch_size, mode, seed, &schedule, step);
            assert_eq!(twin, frozen, "the twin, {line}");
        }
        compared += 1;
    }
    assert!(compared > 300, "only {compared} vectors");
}

#[test]
fn crate_and_twin_give_the_frozen_batches_of_buckets() {
    let mut compared = 0;
    for line in BUCKETS.lines().filter(|line| !line.starts_with('#')) {
        let (query, indices) = line.split_once(": ").unwrap();
        let query: Vec<&str> = query.split(' ').collect();
        let [name, seed, step, buckets] = query[..] else { panic!("four words in {line}") };
        let (mode, seed, step) = (mode(name), seed.parse().unwrap(), step.parse().unwrap());
        let buckets: Vec<(u64, u64)> = buckets
            .split(',')
            .map(|bucket| bucket.split_once('/').unwrap())
            .map(|(records, size)| (records.parse().unwrap(), size.parse().unwrap()))
            .collect();
        let frozen: Vec<u64> = numbers(indices, ' ');
        let bucketed = Bucketed::new(&buckets, mode, seed).unwrap();
        assert_eq!(bucketed.batch_at(step).unwrap(), frozen, "the crate, {line}");
        assert_eq!(twin::bucketed(&buckets, mode, seed, step), frozen, "the twin, {line}");
        compared += 1;
    }
    assert!(compared > 150, "only {compared} vectors");
}

/// Lengths of every size, near powers of two more often than not.
fn lengths() -> impl Strategy<Value = u64> {
    prop_oneof![
        1..=300_u64,
        1..=u64::MAX,
        (0..64_u32, -3..=3_i64).prop_map(|(bits, off)| (1_u64 << bits).max(4).wrapping_add_signed(off)),
    ]
}

/// Weights of every size, and none.
fn weights() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        0.0..1.0,
        (0..=10_u32).prop_map(f64::from),
        (-1074..1000_i32).prop_map(|exponent| 2_f64.powi(exponent) * 1.375),
    ]
}

fn steps() -> impl Strategy<Value = u64> {
    prop_oneof![0..1000_u64, 0..=MAX_STEP, Just(1_000_000_000_000_000), Just(MAX_STEP)]
}

proptest! {
    #[test]
    fn crate_and_twin_agree_on_buckets(
        lengths in prop::collection::vec(lengths(), 1..6), sizes: [u64; 6], seed: u64, step in steps(), cyclic: bool,
    ) {
        // The sum stays below 2^64.
        let records = lengths.iter().map(|length| (length >> 3).max(1));
        let buckets: Vec<(u64, u64)> =
            records.zip(sizes).map(|(records, size)| (records, size % records.min(30) + 1)).collect();
        let mode = if cyclic { Mode::Cyclic } else { Mode::Sequential };
        let bucketed = Bucketed::new(&buckets, mode, seed).unwrap();
        prop_assert_eq!(bucketed.batch_at(step).unwrap(), twin::bucketed(&buckets, mode, seed, step));
    }

    #[test]
    fn crate_and_twin_agree(
        length in lengths(), size in 1..=40_u64, seed: u64, step in steps(), mode in 0..=2_i64,
    ) {
        let mode = Mode::try_from(mode).unwrap();
        let size = if mode == Mode::Cyclic { size.min(length) } else { size };
        let sampler = Sampler::new(length, size, mode, seed).unwrap();
        prop_assert_eq!(sampler.batch_at(step), twin::batch(length, size, mode, seed, step));
    }

    #[test]
    fn crate_and_twin_agree_on_weights(
        weights in prop::collection::vec(weights(), 1..40), size in 1..=40_u64, seed: u64, step in steps(),
    ) {
        prop_assume!(weights.iter().any(|&weight| weight > 0.0));
        let weighted = Weighted::new(&weights, size, seed).unwrap();
        prop_assert_eq!(weighted.batch_at(step), twin::weighted(&weights, size, seed, step));
    }

    #[test]
    fn crate_and_twin_agree_on_mixtures(
        components in prop::collection::vec((lengths(), [weights(), weights()]), 1..12),
        size in 1..=40_u64, seed: u64, step in steps(), change in steps(), mode in 0..=2_i64,
    ) {
        let mode = Mode::try_from(mode).unwrap();
        let (lengths, weights): (Vec<u64>, Vec<[f64; 2]>) = components.into_iter().unzip();
        let schedule = [0, 1].map(|entry| {
            let mut weights: Vec<f64> = weights.iter().map(|weights| weights[entry]).collect();
            weights[0] = weights[0].max(1e-100);
            (entry as u64 * change.max(1), weights)
        });
        let mixture = Mixture::new(&lengths, size, mode, seed, &schedule, false).unwrap();
        for step in [step, change.saturating_sub(1), change] {
            let (sources, indices) = mixture.batch_at(step);
            let found: Vec<(u32, u64)> = sources.into_iter().zip(indices).collect();
            prop_assert_eq!(found, twin::mixture(&lengths, size, mode, seed, &schedule, step));
        }
    }
}
