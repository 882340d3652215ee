//! The order is a contract: the frozen vectors, a naive twin and the crate agree.

#[expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside of a test function"
)]
mod twin;

use proptest::prelude::*;
use zsampler::{MAX_STEP, Mode, ORDER_VERSION, Sampler};

const GOLDEN: &str = include_str!("../golden/order-v1.txt");

#[test]
fn the_frozen_vectors_are_those_of_this_order_version() {
    assert_eq!(ORDER_VERSION, 1);
    assert!(GOLDEN.starts_with(&format!("# Frozen batches of order version {ORDER_VERSION}.")));
}

#[test]
fn crate_and_twin_give_the_frozen_batches() {
    let mut compared = 0;
    for line in GOLDEN.lines().filter(|line| !line.starts_with('#')) {
        let (query, indices) = line.split_once(": ").unwrap();
        let query: Vec<&str> = query.split(' ').collect();
        let mode = match query[0] {
            "sequential" => Mode::Sequential,
            "iid" => Mode::Iid,
            "cyclic" => Mode::Cyclic,
            mode => panic!("unknown mode {mode}"),
        };
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

/// Lengths of every size, near powers of two more often than not.
fn lengths() -> impl Strategy<Value = u64> {
    prop_oneof![
        1..=300_u64,
        1..=u64::MAX,
        (0..64_u32, -3..=3_i64).prop_map(|(bits, off)| (1_u64 << bits).max(4).wrapping_add_signed(off)),
    ]
}

fn steps() -> impl Strategy<Value = u64> {
    prop_oneof![0..1000_u64, 0..=MAX_STEP, Just(1_000_000_000_000_000), Just(MAX_STEP)]
}

proptest! {
    #[test]
    fn crate_and_twin_agree(
        length in lengths(), size in 1..=40_u64, seed: u64, step in steps(), mode in 0..=2_i64,
    ) {
        let mode = Mode::try_from(mode).unwrap();
        let size = if mode == Mode::Cyclic { size.min(length) } else { size };
        let sampler = Sampler::new(length, size, mode, seed).unwrap();
        prop_assert_eq!(sampler.batch_at(step), twin::batch(length, size, mode, seed, step));
    }
}
