//! The laws of the sampler: what holds for every length, batch size, seed and step.

#![expect(clippy::cast_possible_truncation, reason = "indices and steps that are counted here are small")]

use std::collections::HashSet;

use proptest::prelude::*;
use zsampler::{Error, MAX_BATCH_SIZE, MAX_STEP, Mode, Sampler};

const MODES: [Mode; 3] = [Mode::Sequential, Mode::Iid, Mode::Cyclic];
const FAR: u64 = 1_000_000_000_000_000;

/// A small sampler of any mode, whose space may be smaller than its batch where the mode allows it.
fn small() -> impl Strategy<Value = Sampler> {
    (1..=200_u64, 1..=40_u64, 0..3_usize, any::<u64>())
        .prop_filter_map("cyclic batches fit the length", |(length, batch_size, mode, seed)| {
            Sampler::new(length, batch_size, *MODES.get(mode)?, seed).ok()
        })
}

fn small_cyclic() -> impl Strategy<Value = Sampler> {
    (1..=300_u64, any::<u64>(), any::<prop::sample::Index>()).prop_filter_map(
        "cyclic batches fit the length",
        |(length, seed, size)| {
            Sampler::new(length, size.index(usize::try_from(length).ok()?) as u64 + 1, Mode::Cyclic, seed)
                .ok()
        },
    )
}

fn steps() -> impl Strategy<Value = u64> {
    prop_oneof![0..500_u64, Just(FAR), 0..=MAX_STEP - 1000]
}

proptest! {
    #[test]
    fn seek_equals_replay(sampler in small(), step in 0..120_u64) {
        let mut walker = sampler.clone();
        let batches: Vec<_> = walker.by_ref().take(125).collect();
        prop_assert_eq!(walker.step(), 125);
        let mut seeker = sampler;
        seeker.seek(step).unwrap();
        for (s, batch) in (0..).zip(&batches).skip(step as usize) {
            prop_assert_eq!(seeker.step(), s);
            prop_assert_eq!(&seeker.batch_at(s), batch);
            prop_assert_eq!(&seeker.next_batch(), batch);
        }
    }

    #[test]
    fn every_part_of_a_batch_is_a_slice_of_it(sampler in small(), step in steps(), cuts: [prop::sample::Index; 2]) {
        let batch = sampler.batch_at(step);
        prop_assert_eq!(batch.len() as u64, sampler.batch_size());
        prop_assert!(batch.iter().all(|&index| index < sampler.length()));

        let mut whole = vec![u64::MAX; batch.len()];
        sampler.fill(step, &mut whole).unwrap();
        prop_assert_eq!(&whole, &batch);

        let mut cuts = cuts.map(|cut| cut.index(batch.len() + 1));
        cuts.sort_unstable();
        let [start, end] = cuts;
        let mut part = vec![u64::MAX; end - start];
        sampler.fill_range(step, start as u64, &mut part).unwrap();
        prop_assert_eq!(&part, &batch[start..end]);
    }

    #[test]
    fn sequential_and_iid_are_one_stream_whatever_the_batch_size(
        length in 1..=1_000_000_u64, sizes in [1..=50_u64, 1..=50], seed: u64, iid: bool,
    ) {
        let mode = if iid { Mode::Iid } else { Mode::Sequential };
        let [one, other] = sizes.map(|size| {
            let sampler = Sampler::new(length, size, mode, seed).unwrap();
            sampler.flatten().take(200).collect::<Vec<_>>()
        });
        prop_assert_eq!(one, other);
    }

    #[test]
    fn a_cyclic_stream_is_one_whatever_the_batch_size_that_divides_the_length(
        batches in 1..=20_u64, size in 1..=20_u64, seed: u64,
    ) {
        let length = batches * size;
        let [one, other] = [1, size].map(|size| {
            let sampler = Sampler::new(length, size, Mode::Cyclic, seed).unwrap();
            sampler.flatten().take(3 * length as usize).collect::<Vec<_>>()
        });
        prop_assert_eq!(one, other);
    }

    #[test]
    fn sequential_walks_in_a_circle(length in 1..=100_u64, size in 1..=300_u64, step in steps()) {
        let batch = Sampler::new(length, size, Mode::Sequential, 0).unwrap().batch_at(step);
        let first = (u128::from(step) * u128::from(size) % u128::from(length)) as u64;
        prop_assert!(batch.iter().zip(0..).all(|(&index, j)| index == (first + j) % length));
    }

    #[test]
    fn a_cycle_draws_each_record_at_most_once_and_drops_less_than_a_batch(
        sampler in small_cyclic(), cycle in prop_oneof![0..50_u64, Just(FAR)],
    ) {
        let batches = sampler.length() / sampler.batch_size();
        let drawn: Vec<u64> =
            (0..batches).flat_map(|batch| sampler.batch_at(cycle * batches + batch)).collect();
        let distinct: HashSet<u64> = drawn.iter().copied().collect();
        prop_assert_eq!(distinct.len(), drawn.len());
        prop_assert_eq!(drawn.len() as u64, batches * sampler.batch_size());
        prop_assert!(sampler.length() - (drawn.len() as u64) < sampler.batch_size());
        prop_assert!(drawn.iter().all(|&index| index < sampler.length()));
    }

    #[test]
    fn next_draw_equals_a_search(sampler in small(), index: prop::sample::Index, from in steps()) {
        let index = index.index(sampler.length() as usize) as u64;
        let found = sampler.next_draw(index, from).unwrap();
        if sampler.mode() == Mode::Iid {
            prop_assert_eq!(found, None);
        } else {
            // The search is bounded only by the answer: a wrong one that is too early or too late is seen.
            let (step, place) = found.unwrap();
            prop_assert!(step >= from);
            let searched = (from..=step).find_map(|step| {
                let place = sampler.batch_at(step).iter().position(|&drawn| drawn == index)?;
                Some((step, place as u64))
            });
            prop_assert_eq!(searched, Some((step, place)));
        }
    }

    #[test]
    fn next_draws_follow_one_another_to_the_end_of_each_cycle(sampler in small_cyclic(), index: prop::sample::Index) {
        // All draws of one record within ten cycles, by asking and by looking.
        let index = index.index(sampler.length() as usize) as u64;
        let end = 10 * (sampler.length() / sampler.batch_size());
        let looked: Vec<u64> = (0..end).filter(|&step| sampler.batch_at(step).contains(&index)).collect();
        let mut asked = Vec::new();
        let mut from = 0;
        while let Some((step, _)) = sampler.next_draw(index, from).unwrap().filter(|&(step, _)| step < end) {
            asked.push(step);
            from = step + 1;
        }
        prop_assert_eq!(asked, looked);
    }

    #[test]
    fn a_batch_of_2_to_the_40_records_is_in_range_distinct_and_found_again(
        length in (1_u64 << 40) - 3..(1 << 40) + 3, seed: u64, step in prop_oneof![Just(FAR), 0..FAR],
    ) {
        let sampler = Sampler::new(length, 8192, Mode::Cyclic, seed).unwrap();
        let batch = sampler.batch_at(step);
        prop_assert!(batch.iter().all(|&index| index < length));
        prop_assert_eq!(batch.iter().collect::<HashSet<_>>().len(), 8192);
        for place in [0, 1, 4095, 8191] {
            prop_assert_eq!(sampler.next_draw(batch[place], step), Ok(Some((step, place as u64))));
        }
        let iid = Sampler::new(length, 8192, Mode::Iid, seed).unwrap().batch_at(step);
        prop_assert!(iid.iter().all(|&index| index < length));
        prop_assert!(iid.iter().any(|&index| index > length / 2));
    }
}

#[test]
fn a_batch_may_be_the_whole_space_or_one_record() {
    for length in [1, 2, 3, 10, 257] {
        let mut whole = Sampler::new(length, length, Mode::Cyclic, 7).unwrap();
        let mut single = Sampler::new(length, 1, Mode::Cyclic, 7).unwrap();
        for _ in 0..5 {
            let batch = whole.next_batch();
            let singles: Vec<u64> = single.by_ref().flatten().take(length as usize).collect();
            assert_eq!(batch, singles);
            let mut sorted = batch;
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..length));
        }
    }
}

#[test]
fn each_cycle_drops_another_remainder_and_every_record_is_reached() {
    // 100 records in batches of 32: four are dropped each cycle.
    let sampler = Sampler::new(100, 32, Mode::Cyclic, 42).unwrap();
    let dropped = |cycle: u64| -> Vec<u64> {
        let drawn: HashSet<u64> = (0..3).flat_map(|batch| sampler.batch_at(cycle * 3 + batch)).collect();
        (0..100).filter(|index| !drawn.contains(index)).collect()
    };
    let remainders: Vec<Vec<u64>> = (0..200).map(dropped).collect();
    assert!(remainders.iter().all(|remainder| remainder.len() == 4));
    assert!(remainders.iter().collect::<HashSet<_>>().len() > 190);
    // Balance: 800 drops over 100 records, 8 each on average. A record with none or with 25 would be a
    // one in a thousand and a one in a million affair.
    let mut drops = [0; 100];
    remainders.iter().flatten().for_each(|&index| drops[index as usize] += 1);
    assert!(drops.iter().all(|&count| count < 25), "{drops:?}");
    assert!(drops.iter().filter(|&&count| count == 0).count() < 3, "{drops:?}");
}

#[test]
fn after_k_cycles_that_drop_nothing_each_record_was_drawn_k_times() {
    let sampler = Sampler::new(96, 32, Mode::Cyclic, 42).unwrap();
    let mut counts = [0; 96];
    for (batch, indices) in (1..).zip(sampler.take(60)) {
        indices.iter().for_each(|&index| counts[index as usize] += 1);
        // In mid-cycle too, no record is more than one draw ahead of another.
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 1);
        if batch % 3 == 0 {
            assert_eq!((*least, *most), (batch / 3, batch / 3));
        }
    }
}

#[test]
fn the_order_depends_on_seed_and_cycle_and_not_on_their_sum() {
    let length = 64;
    let cycle_of =
        |seed: u64, cycle: u64| Sampler::new(length, length, Mode::Cyclic, seed).unwrap().batch_at(cycle);
    let seeds = [0, 1, 2, 3, 41, 42, 43, u64::MAX - 1, u64::MAX];
    let cycles: HashSet<Vec<u64>> =
        seeds.iter().flat_map(|&seed| (0..20).map(move |cycle| cycle_of(seed, cycle))).collect();
    assert_eq!(cycles.len(), seeds.len() * 20);

    let iid = |seed: u64, step: u64| Sampler::new(1 << 40, 64, Mode::Iid, seed).unwrap().batch_at(step);
    let batches: HashSet<Vec<u64>> =
        seeds.iter().flat_map(|&seed| (0..20).map(move |step| iid(seed, step))).collect();
    assert_eq!(batches.len(), seeds.len() * 20);
}

#[test]
fn a_step_costs_the_same_at_the_far_end() {
    for mode in MODES {
        for length in [1_u64 << 40, (1 << 40) + 1, u64::MAX] {
            let mut sampler = Sampler::new(length, 8192, mode, 42).unwrap();
            for step in [FAR, MAX_STEP] {
                sampler.seek(step).unwrap();
                let batch = sampler.next_batch();
                assert_eq!(sampler.step(), step + 1);
                assert!(batch.iter().all(|&index| index < length));
                assert_eq!(batch, sampler.batch_at(step));
            }
        }
    }
}

#[test]
fn a_sampler_tells_what_it_was_made_of() {
    for mode in MODES {
        let sampler = Sampler::new(10, 3, mode, 99).unwrap();
        let told = (sampler.length(), sampler.batch_size(), sampler.mode(), sampler.seed(), sampler.step());
        assert_eq!(told, (10, 3, mode, 99, 0));
    }
}

#[test]
fn a_space_smaller_than_the_batch_wraps_or_repeats_and_is_refused_where_neither_may_be() {
    let sequential = Sampler::new(3, 8, Mode::Sequential, 0).unwrap();
    assert_eq!(sequential.batch_at(0), [0, 1, 2, 0, 1, 2, 0, 1]);
    assert_eq!(sequential.batch_at(1), [2, 0, 1, 2, 0, 1, 2, 0]);
    // Record 0 comes twice in step 1: the first place counts.
    assert_eq!(sequential.next_draw(0, 1), Ok(Some((1, 1))));
    let iid = Sampler::new(3, 8, Mode::Iid, 0).unwrap();
    assert!(iid.batch_at(0).iter().all(|&index| index < 3));
    let refused = Sampler::new(3, 8, Mode::Cyclic, 0).unwrap_err();
    assert_eq!(refused, Error::BatchExceedsLength { batch_size: 8, length: 3 });
    assert_eq!(
        refused.to_string(),
        "a cyclic batch never repeats an index, so the batch size 8 cannot exceed the length 3"
    );
}

#[test]
fn impossible_samplers_are_refused() {
    for mode in MODES {
        assert_eq!(Sampler::new(0, 1, mode, 0).unwrap_err(), Error::EmptyLength);
        assert_eq!(Sampler::new(1, 0, mode, 0).unwrap_err(), Error::EmptyBatch);
        let batch_size = MAX_BATCH_SIZE + 1;
        assert_eq!(
            Sampler::new(u64::MAX, batch_size, mode, 0).unwrap_err(),
            Error::BatchTooLarge { batch_size }
        );
        assert!(Sampler::new(u64::MAX, MAX_BATCH_SIZE, mode, 0).is_ok());
    }
}

#[test]
fn the_largest_batch_at_the_last_step_does_not_wrap() {
    // The batch does not fit in memory, but any part of it can be had.
    for mode in MODES {
        let sampler = Sampler::new(u64::MAX, MAX_BATCH_SIZE, mode, 42).unwrap();
        let mut part = [0; 4];
        sampler.fill_range(MAX_STEP, MAX_BATCH_SIZE - 4, &mut part).unwrap();
        if mode == Mode::Sequential {
            let last = u128::from(MAX_STEP) * u128::from(MAX_BATCH_SIZE) + u128::from(MAX_BATCH_SIZE) - 1;
            assert_eq!(u128::from(part[3]), last % u128::from(u64::MAX));
        }
    }
}

#[test]
fn a_step_past_the_last_is_refused_and_moves_nothing() {
    for mode in MODES {
        let mut sampler = Sampler::new(10, 2, mode, 0).unwrap();
        sampler.seek(5).unwrap();
        let step = MAX_STEP + 1;
        assert_eq!(sampler.seek(step), Err(Error::StepTooLarge { step }));
        assert_eq!(sampler.step(), 5);
        assert_eq!(sampler.next_draw(0, step), Err(Error::StepTooLarge { step }));
    }
}

#[test]
fn a_draw_past_the_last_step_is_an_error() {
    for mode in [Mode::Sequential, Mode::Cyclic] {
        // Of 2^63 + 7 batches of one record, some come before the last step and some do not.
        let sampler = Sampler::new(MAX_STEP + 8, 1, mode, 0).unwrap();
        let drawn = sampler.batch_at(MAX_STEP)[0];
        assert_eq!(sampler.next_draw(drawn, MAX_STEP), Ok(Some((MAX_STEP, 0))));
        let later = sampler.batch_at(MAX_STEP + 1)[0];
        let (index, step) = (later, 1);
        assert_eq!(sampler.next_draw(index, step), Err(Error::NeverDrawn { index, step }));
    }
}

#[test]
fn a_wrong_destination_or_index_is_refused_and_nothing_is_written() {
    let sampler = Sampler::new(10, 4, Mode::Cyclic, 0).unwrap();
    let mut out = [77; 5];
    assert_eq!(sampler.fill(0, &mut out), Err(Error::WrongDestination { batch_size: 4, found: 5 }));
    assert_eq!(sampler.fill(0, &mut out[..3]), Err(Error::WrongDestination { batch_size: 4, found: 3 }));
    for (start, count) in [(0, 5), (1, 4), (4, 1), (5, 0), (u64::MAX, 1)] {
        let refused = sampler.fill_range(0, start, &mut out[..count]);
        assert_eq!(refused, Err(Error::RangeBeyondBatch { start, count: count as u64, batch_size: 4 }));
    }
    assert_eq!(out, [77; 5]);
    assert_eq!(sampler.fill_range(0, 4, &mut []), Ok(()));
    for index in [10, u64::MAX] {
        assert_eq!(sampler.next_draw(index, 0), Err(Error::IndexOutOfRange { index, length: 10 }));
    }
}
