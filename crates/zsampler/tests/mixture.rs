//! The laws of mixtures, and their chances.

#![expect(clippy::cast_possible_truncation, reason = "indices that are counted here are small")]

use proptest::prelude::*;
use zsampler::{Error, MAX_BATCH_SIZE, MAX_COMPONENTS, MAX_SCHEDULED, MAX_STEP, Mixture, Mode, Sampler};

const MODES: [Mode; 3] = [Mode::Sequential, Mode::Iid, Mode::Cyclic];

#[expect(clippy::unwrap_used, reason = "test code outside of a test function")]
fn mixture(lengths: &[u64], batch_size: u64, mode: Mode, seed: u64, weights: &[f64]) -> Mixture {
    Mixture::new(lengths, batch_size, mode, seed, &[(0, weights.to_vec())], false).unwrap()
}

/// A mixture whose components are short and change their shares.
fn small() -> impl Strategy<Value = Mixture> {
    let component = (1..60_u64, prop_oneof![Just(0.0), 0.0..1.0], prop_oneof![Just(0.0), 0.0..1.0]);
    (prop::collection::vec(component, 1..8), 1..60_u64, 0..3_usize, any::<u64>(), 1..20_u64).prop_filter_map(
        "some weight",
        |(components, batch_size, mode, seed, change)| {
            let lengths: Vec<u64> = components.iter().map(|component| component.0).collect();
            let schedule = [
                (0, components.iter().map(|component| component.1).collect()),
                (change, components.iter().map(|component| component.2).collect()),
            ];
            Mixture::new(&lengths, batch_size, *MODES.get(mode)?, seed, &schedule, false).ok()
        },
    )
}

/// The records of each component in the order of their numbers: a batch has laid them out anyhow, so each batch's part of it
/// is sorted.
fn drawn(mixture: &Mixture, steps: u64) -> Vec<Vec<Vec<u64>>> {
    let mut drawn = vec![Vec::new(); mixture.lengths().len()];
    for step in 0..steps {
        let (sources, indices) = mixture.batch_at(step);
        for (component, all) in drawn.iter_mut().enumerate() {
            let of = sources.iter().zip(&indices).filter(|&(&source, _)| source as usize == component);
            let mut batch: Vec<u64> = of.map(|(_, &index)| index).collect();
            batch.sort_unstable();
            all.push(batch);
        }
    }
    drawn
}

proptest! {
    #[test]
    fn every_part_of_a_batch_is_a_slice_of_it(
        mixture in small(), step in prop_oneof![0..30_u64, 0..=MAX_STEP, Just(u64::MAX)], cuts: [prop::sample::Index; 2],
    ) {
        let (sources, indices) = mixture.batch_at(step);
        prop_assert_eq!(indices.len() as u64, mixture.batch_size());
        let mut counts = vec![0; mixture.lengths().len()];
        for (&source, &index) in sources.iter().zip(&indices) {
            prop_assert!(index < mixture.lengths()[source as usize]);
            counts[source as usize] += 1;
        }
        prop_assert_eq!(counts, mixture.counts(step));

        let mut cuts = cuts.map(|cut| cut.index(indices.len() + 1));
        cuts.sort_unstable();
        let [start, end] = cuts;
        let (mut some, mut parts) = (vec![u32::MAX; end - start], vec![u64::MAX; end - start]);
        mixture.fill_range(step, start as u64, &mut some, &mut parts).unwrap();
        prop_assert_eq!(&some, &sources[start..end]);
        prop_assert_eq!(&parts, &indices[start..end]);
    }

    #[test]
    fn a_component_goes_through_its_records_whatever_the_shares(mixture in small()) {
        for (all, &length) in drawn(&mixture, 40).iter().zip(mixture.lengths()) {
            let mut counts = vec![0_u32; length as usize];
            let mut number = 0;
            for batch in all {
                if mixture.mode() == Mode::Sequential {
                    let mut expected: Vec<u64> =
                        (number..number + batch.len() as u64).map(|number| number % length).collect();
                    expected.sort_unstable();
                    prop_assert_eq!(batch, &expected);
                }
                number += batch.len() as u64;
                batch.iter().for_each(|&index| counts[index as usize] += 1);
                if mixture.mode() == Mode::Cyclic {
                    // After any batch: all the cycles that are over, and at most one more of each record.
                    let cycles = (number / length) as u32;
                    prop_assert!(counts.iter().all(|&count| count == cycles || count == cycles + 1));
                }
            }
        }
    }

    #[test]
    fn one_component_is_a_sampler_but_for_the_places_and_the_seed(
        length in 1..40_u64, size in 1..50_u64, seed: u64, step in 0..1000_u64,
    ) {
        let mixture = mixture(&[length], size, Mode::Sequential, seed, &[0.3]);
        let (sources, mut indices) = mixture.batch_at(step);
        prop_assert!(sources.iter().all(|&source| source == 0));
        let mut expected = Sampler::new(length, size, Mode::Sequential, 0).unwrap().batch_at(step);
        indices.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(indices, expected);
    }

    #[test]
    fn counts_never_depend_on_the_seed_or_the_mode(mixture in small(), seed: u64, step in 0..100_u64) {
        // The same shares under another seed and mode.
        let weights: Vec<f64> = mixture.counts(0).into_iter().map(|count| count as f64).collect();
        let [one, other] = [(Mode::Iid, seed), (Mode::Cyclic, !seed)].map(|(mode, seed)| {
            Mixture::new(mixture.lengths(), 17, mode, seed, &[(0, weights.clone())], false).unwrap().counts(step)
        });
        prop_assert_eq!(one, other);
    }
}

#[test]
fn exact_shares_are_the_same_in_every_batch() {
    let schedule = [(0, vec![0.1, 0.2, 0.7]), (5, vec![1.0, 0.0, 3.0])];
    let mixture = Mixture::new(&[7, 8, 9], 20, Mode::Cyclic, 1, &schedule, true).unwrap();
    for step in 0..5 {
        assert_eq!(mixture.counts(step), [2, 4, 14]);
    }
    for step in [5, 6, 1_000_000_000_000_000, MAX_STEP, u64::MAX] {
        assert_eq!(mixture.counts(step), [5, 0, 15]);
        assert_eq!(mixture.batch_at(step).0.iter().filter(|&&source| source == 0).count(), 5);
    }
}

#[test]
fn a_schedule_goes_on_where_the_entry_before_it_stopped() {
    let schedule = [(0, vec![1.0, 1.0]), (3, vec![1.0, 0.0]), (4, vec![0.25, 0.75])];
    let mixture = Mixture::new(&[1000, 1000], 8, Mode::Sequential, 5, &schedule, false).unwrap();
    let drawn = drawn(&mixture, 8);
    let flat = |component: usize| drawn[component].concat();
    assert!(flat(0).into_iter().eq(0..3 * 4 + 8 + 4 * 2));
    assert!(flat(1).into_iter().eq(0..3 * 4 + 4 * 6));
    assert_eq!([2, 3, 4].map(|step| mixture.counts(step)), [[4, 4], [8, 0], [2, 6]]);
}

#[test]
fn far_steps_and_huge_batches_do_not_wrap() {
    for mode in MODES {
        let schedule = [(0, vec![1.0, 2.0, 0.0]), (MAX_STEP - 1, vec![0.5, 0.25, 0.25])];
        let lengths = [3, u64::MAX, 1 << 40];
        let mixture = Mixture::new(&lengths, MAX_BATCH_SIZE, mode, 42, &schedule, false).unwrap();
        let (mut sources, mut indices) = ([9; 64], [u64::MAX; 64]);
        for step in [0, MAX_STEP - 2, MAX_STEP, u64::MAX] {
            assert_eq!(mixture.counts(step).iter().sum::<u64>(), MAX_BATCH_SIZE);
            mixture.fill_range(step, MAX_BATCH_SIZE - 64, &mut sources, &mut indices).unwrap();
            assert!(sources.iter().zip(&indices).all(|(&source, &index)| index < lengths[source as usize]));
            assert!(sources.contains(&0) && sources.contains(&1));
        }
    }
}

#[test]
fn a_thousand_components_share_a_batch() {
    let lengths: Vec<u64> = (1..=1000).collect();
    let weights: Vec<f64> = (0..1000).map(|component| f64::from(component % 10)).collect();
    let mixture = mixture(&lengths, 4500, Mode::Cyclic, 3, &weights);
    for step in [0, 1, 1_000_000] {
        let counts = mixture.counts(step);
        for (&count, &weight) in counts.iter().zip(&weights) {
            assert!((count as f64 - weight).abs() <= 10.0 && (weight > 0.0 || count == 0));
        }
        let (sources, indices) = mixture.batch_at(step);
        assert!(sources.iter().zip(indices).all(|(&source, index)| index <= u64::from(source)));
    }
}

#[test]
fn every_place_is_as_likely_to_be_a_components() {
    // 3 of 10 records are component 0's: how often each place is, over steps and over seeds.
    for over_seeds in [false, true] {
        let mut counts = [0_u32; 10];
        let mut pairs = [0_u32; 100];
        let rounds = 5000;
        for round in 0..rounds {
            let (seed, step) = if over_seeds { (round, 7) } else { (7, round) };
            let mixture =
                Mixture::new(&[5, 5], 10, Mode::Sequential, seed, &[(0, vec![0.3, 0.7])], true).unwrap();
            let (sources, _) = mixture.batch_at(step);
            let places: Vec<usize> = (0..10).filter(|&place| sources[place] == 0).collect();
            places.iter().for_each(|&place| counts[place] += 1);
            for pair in places.windows(2) {
                pairs[pair[0] * 10 + pair[1]] += 1;
            }
        }
        // Each is 0.3 of the rounds, with a deviation of sqrt(0.3 * 0.7 * rounds) = 32.
        assert!(counts.iter().all(|count| count.abs_diff(1500) < 6 * 32), "{counts:?}");
        // Neighbours in one of C(10, 3) = 120 choices: (9 - b) + a of them hold a and b as neighbours, for a < b.
        for a in 0..10_usize {
            for b in a + 1..10 {
                let expected = rounds as f64 * (9 - b + a) as f64 / 120.0;
                let deviations = (f64::from(pairs[a * 10 + b]) - expected) / expected.max(1.0).sqrt();
                assert!(deviations.abs() < 6.0, "{a} and {b}: {deviations:.1} standard deviations");
            }
        }
    }
}

#[test]
fn components_of_one_length_have_orders_of_their_own() {
    // The first records of two components over seeds: all pairs alike.
    let mut pairs = vec![0_u32; 64];
    for seed in 0..6400 {
        let (sources, indices) = mixture(&[8, 8], 2, Mode::Cyclic, seed, &[1.0, 1.0]).batch_at(0);
        let of = |component: u32| indices[sources.iter().position(|&source| source == component).unwrap()];
        pairs[(of(0) * 8 + of(1)) as usize] += 1;
    }
    let statistic: f64 = pairs.iter().map(|&count| (f64::from(count) - 100.0).powi(2) / 100.0).sum();
    assert!(((statistic - 63.0) / 126_f64.sqrt()).abs() < 6.0, "{statistic}");
}

#[test]
fn cycles_and_seeds_of_a_component_differ() {
    let mut orders = std::collections::HashSet::new();
    for seed in 0..20 {
        for cycle in 0..20 {
            let (sources, indices) = mixture(&[40, 3], 40, Mode::Cyclic, seed, &[1.0, 0.0]).batch_at(cycle);
            assert!(sources.iter().all(|&source| source == 0));
            assert!(orders.insert(indices));
        }
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let new = |lengths: &[u64], schedule: &[(u64, Vec<f64>)], exact: bool| {
        Mixture::new(lengths, 10, Mode::Iid, 0, schedule, exact).unwrap_err()
    };
    let even = || vec![1.0, 1.0];
    assert_eq!(new(&[], &[(0, vec![])], false), Error::NoComponents);
    assert_eq!(new(&[1, 1], &[], false), Error::NoSchedule);
    assert_eq!(new(&[1, 1], &[(3, even())], false), Error::ScheduleStart { step: 3 });
    let order = Error::ScheduleOrder { entry: 2, step: 5, before: 5 };
    assert_eq!(new(&[1, 1], &[(0, even()), (5, even()), (5, even())], false), order);
    let step = MAX_STEP + 1;
    assert_eq!(new(&[1, 1], &[(0, even()), (step, even())], false), Error::StepTooLarge { step });
    let shares = Error::WrongShares { step: 4, components: 2, found: 1 };
    assert_eq!(new(&[1, 1], &[(0, even()), (4, vec![1.0])], false), shares);
    let share = Error::BadShare { step: 4, component: 1, weight: -1.0 };
    assert_eq!(new(&[1, 1], &[(0, even()), (4, vec![1.0, -1.0])], false), share);
    assert_eq!(new(&[1, 1], &[(0, vec![0.0, 0.0])], false), Error::ZeroShares { step: 0, count: 2 });
    let overflow = Error::SharesOverflow { step: 0, count: 2 };
    assert_eq!(new(&[1, 1], &[(0, vec![f64::MAX, f64::MAX])], false), overflow);
    let empty = Error::EmptyComponent { step: 9, component: 0, weight: 0.5 };
    assert_eq!(new(&[0, 1], &[(0, vec![0.0, 1.0]), (9, vec![0.5, 1.0])], false), empty);
    let found = MAX_COMPONENTS + 1;
    assert_eq!(new(&vec![1; found as usize], &[], false), Error::TooManyComponents { found });
    let entries = MAX_SCHEDULED / MAX_COMPONENTS + 1;
    let schedule: Vec<(u64, Vec<f64>)> = (0..entries).map(|step| (step, vec![])).collect();
    let long = Error::ScheduleTooLong { entries, components: MAX_COMPONENTS };
    assert_eq!(new(&vec![1; MAX_COMPONENTS as usize], &schedule, false), long);
    assert_eq!(
        new(&[1, 1], &[(0, vec![0.25, 0.75])], true).to_string(),
        "component 0 has weight 0.25 from step 0 on, which makes 2.5 records of a batch of 10; exact shares need a whole \
         number of at least 1"
    );
    assert_eq!(
        new(&[1, 1], &[(0, vec![1.0, f64::NAN])], true).to_string(),
        "the weight of component 1 from step 0 on is NaN, but a weight must be a finite number of at least 0"
    );
    for batch_size in [0, MAX_BATCH_SIZE + 1] {
        assert!(Mixture::new(&[1], batch_size, Mode::Iid, 0, &[(0, vec![1.0])], false).is_err());
    }
    // A component of no records and no weight is none that anybody meets.
    assert_eq!(mixture(&[0, 4], 3, Mode::Cyclic, 0, &[0.0, 1.0]).batch_at(8).0, [1, 1, 1]);
}

#[test]
fn a_wrong_destination_is_refused_and_nothing_is_written() {
    let mixture = mixture(&[3, 3], 4, Mode::Iid, 99, &[1.0, 2.0]);
    let (mut sources, mut indices) = ([7; 6], [77; 6]);
    let refused = mixture.fill_range(0, 0, &mut sources[..2], &mut indices[..3]);
    assert_eq!(refused, Err(Error::UnequalDestinations { sources: 2, indices: 3 }));
    for (start, count) in [(0, 5), (1, 4), (4, 1), (5, 0), (u64::MAX, 1)] {
        let refused = mixture.fill_range(0, start, &mut sources[..count], &mut indices[..count]);
        assert_eq!(refused, Err(Error::RangeBeyondBatch { start, count: count as u64, batch_size: 4 }));
    }
    assert_eq!((sources, indices), ([7; 6], [77; 6]));
    assert_eq!(mixture.fill_range(0, 4, &mut [], &mut []), Ok(()));
    let told = (mixture.lengths(), mixture.batch_size(), mixture.mode(), mixture.seed());
    assert_eq!(told, (&[3, 3][..], 4, Mode::Iid, 99));
}
