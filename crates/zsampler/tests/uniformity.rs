//! Chance: on fixed seeds, the draws look like what they are meant to be. A bound of six standard deviations of
//! the chi-square statistic lets pure chance fail about once in 10^8; the seeds are fixed, so it never does.

#![expect(clippy::cast_possible_truncation, reason = "indices that are counted here are small")]

use zsampler::{Mode, Sampler};

/// How many standard deviations the chi-square statistic of equally likely cells lies above its mean. `free` is
/// the degrees of freedom. Below -6 would be suspicious as well: too even to be chance.
#[track_caller]
fn assert_even(what: &str, counts: &[u32], free: f64) {
    let expected = counts.iter().map(|&count| f64::from(count)).sum::<f64>() / counts.len() as f64;
    assert!(expected >= 5.0, "{what}: too few draws to tell");
    let statistic: f64 = counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    let deviations = (statistic - free) / (2.0 * free).sqrt();
    assert!(deviations.abs() < 6.0, "{what}: {deviations:.1} standard deviations");
}

#[expect(clippy::unwrap_used, reason = "test code outside of a test function")]
fn sampler(length: u64, batch_size: u64, mode: Mode, seed: u64) -> Sampler {
    Sampler::new(length, batch_size, mode, seed).unwrap()
}

/// Orders of all records, one a cycle.
fn cycles(length: u64, seed: u64, count: usize) -> impl Iterator<Item = Vec<usize>> {
    sampler(length, length, Mode::Cyclic, seed)
        .take(count)
        .map(|cycle| cycle.into_iter().map(|index| index as usize).collect())
}

#[test]
fn iid_draws_are_uniform_and_so_are_neighbours() {
    for length in [2, 3, 5, 6, 7, 10, 16, 17] {
        let n = length as usize;
        let draws: Vec<u64> = sampler(length, 8192, Mode::Iid, 42).flatten().take(200_000).collect();
        let mut single = vec![0; n];
        let mut pairs = vec![0; n * n];
        for pair in draws.chunks_exact(2) {
            single[pair[0] as usize] += 1;
            single[pair[1] as usize] += 1;
            pairs[pair[0] as usize * n + pair[1] as usize] += 1;
        }
        assert_even(&format!("single draws of {n}"), &single, (n - 1) as f64);
        assert_even(&format!("pairs of draws of {n}"), &pairs, (n * n - 1) as f64);
    }
}

#[test]
fn iid_draws_are_uniform_where_many_words_are_rejected() {
    // At 3/4 of 2^64 a multiplication without rejection would draw every third value twice as often.
    let length = 3 << 62;
    let mut thirds = [0; 3];
    let mut sixteenths = [0; 16];
    for index in sampler(length, 8192, Mode::Iid, 1).flatten().take(100_000) {
        thirds[(index % 3) as usize] += 1;
        sixteenths[(index / (length / 16)) as usize] += 1;
    }
    assert_even("residues", &thirds, 2.0);
    assert_even("sixteenths of the range", &sixteenths, 15.0);
}

#[test]
fn iid_streams_of_neighbouring_seeds_and_steps_are_independent() {
    // The same place under seed and seed + 1, and one batch apart.
    let mut seeds = vec![0; 256];
    let mut steps = vec![0; 256];
    for seed in 0..200 {
        let [one, other] = [seed, seed + 1].map(|seed| sampler(16, 256, Mode::Iid, seed));
        let next = one.batch_at(1);
        for ((a, b), c) in one.batch_at(0).into_iter().zip(other.batch_at(0)).zip(next) {
            seeds[(a * 16 + b) as usize] += 1;
            steps[(a * 16 + c) as usize] += 1;
        }
    }
    assert_even("seed and seed + 1", &seeds, 255.0);
    assert_even("step and step + 1", &steps, 255.0);
}

#[test]
fn all_orders_of_a_few_records_are_equally_likely() {
    for (length, orders) in [(2, 2), (3, 6), (4, 24), (5, 120), (6, 720)] {
        let mut counts = std::collections::HashMap::<Vec<usize>, u32>::new();
        for order in cycles(length, 42, 60_000) {
            *counts.entry(order).or_default() += 1;
        }
        let counts: Vec<u32> = counts.into_values().collect();
        assert_eq!(counts.len(), orders, "not every order of {length} comes up");
        assert_even(&format!("orders of {length}"), &counts, (orders - 1) as f64);
    }
}

#[test]
fn each_place_holds_each_record_equally_often_and_neighbours_are_as_likely() {
    for length in (5..=17).chain([31, 32, 33, 64, 100]) {
        let n = length as usize;
        let mut cells = vec![0; n * n];
        let mut neighbours = vec![0; n * n];
        let mut distant = vec![0; n * n];
        let mut steps = vec![0; n];
        for order in cycles(length, 7, 10_000) {
            for (place, &index) in order.iter().enumerate() {
                cells[place * n + index] += 1;
            }
            for pair in order.windows(2) {
                steps[(pair[1] + n - pair[0]) % n] += 1;
            }
            neighbours[order[0] * n + order[1]] += 1;
            distant[order[0] * n + order[n / 2]] += 1;
        }
        let off_diagonal = |pairs: &[u32]| -> Vec<u32> {
            (0..n * n).filter(|cell| cell / n != cell % n).map(|cell| pairs[cell]).collect()
        };
        let free = (n - 1) as f64;
        // Rows and columns of `cells` have known sums, hence its degrees of freedom.
        assert_even(&format!("places of {n}"), &cells, free * free);
        if n <= 33 {
            let pairs = (n * (n - 1) - 1) as f64;
            assert_even(&format!("first two of {n}"), &off_diagonal(&neighbours), pairs);
            assert_even(&format!("first and middle of {n}"), &off_diagonal(&distant), pairs);
        }
        assert_even(&format!("differences of neighbours of {n}"), &steps[1..], free - 1.0);
    }
}

#[test]
fn orders_of_many_records_are_even_in_every_window() {
    // One long batch each: 16 slices of the index space, and of the differences of neighbours.
    for length in [1_000_u64, 4096, 4097, 1_000_000, (1 << 20) + 1, 1 << 40, (1 << 40) + 1, u64::MAX] {
        let mut slices = [0; 16];
        let mut differences = [0; 16];
        let mut low = [0; 16];
        for seed in 0..100 {
            let batch = sampler(length, 1000, Mode::Cyclic, seed).batch_at(0);
            let slice = |index: u64| ((u128::from(index) * 16) / u128::from(length)) as usize;
            for pair in batch.chunks_exact(2) {
                slices[slice(pair[0])] += 1;
                let ahead =
                    (u128::from(pair[0]) + u128::from(length) - u128::from(pair[1])) % u128::from(length);
                differences[slice(ahead as u64)] += 1;
                low[((pair[0] ^ pair[1]) % 16) as usize] += 1;
            }
        }
        // Without replacement a short space is more even than chance: 1,000 of 1,000 records say nothing.
        if length > 100_000 {
            assert_even(&format!("slices at {length}"), &slices, 15.0);
            assert_even(&format!("differences at {length}"), &differences, 15.0);
            assert_even(&format!("low bits at {length}"), &low, 15.0);
        }
        assert!(slices.iter().chain(&differences).all(|&count| (2500..3800).contains(&count)), "{length}");
    }
}

#[test]
fn cycles_of_neighbouring_seeds_are_unrelated() {
    // (seed, cycle) beside (seed + 1, cycle - 1), (seed + 1, cycle) and (seed, cycle + 1): the record at one
    // place says nothing of the record at that place in the other.
    let n = 16;
    for (seed_step, cycle_step) in [(1_u64, -1_i64), (1, 0), (0, 1)] {
        let mut pairs = vec![0; n * n];
        for seed in 0..300 {
            let [one, other] = [seed, seed + seed_step].map(|seed| sampler(16, 16, Mode::Cyclic, seed));
            for cycle in 1..10_u64 {
                let beside = other.batch_at(cycle.wrapping_add_signed(cycle_step));
                for (a, b) in one.batch_at(cycle).into_iter().zip(beside) {
                    pairs[(a * 16 + b) as usize] += 1;
                }
            }
        }
        assert_even(&format!("({seed_step}, {cycle_step})"), &pairs, ((n - 1) * (n - 1)) as f64);
    }
}
