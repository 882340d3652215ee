//! The laws of buckets.

use proptest::prelude::*;
use zsampler::{Bucketed, Error, MAX_BATCH_SIZE, MAX_BUCKETS, MAX_STEP, Mode};

/// Buckets of (records, batch size), and a mode.
fn small() -> impl Strategy<Value = (Vec<(u64, u64)>, Mode, u64)> {
    let bucket = (1..20_u64, 0..60_u64).prop_map(|(size, more)| (size + more, size));
    let mode = prop_oneof![Just(Mode::Sequential), Just(Mode::Cyclic)];
    (prop::collection::vec(bucket, 1..8), mode, any::<u64>())
}

proptest! {
    #[test]
    fn a_pass_has_each_record_once_but_for_what_fills_no_batch(
        (buckets, mode, seed) in small(), pass in prop_oneof![0..5_u64, Just(1 << 40)],
    ) {
        let bucketed = Bucketed::new(&buckets, mode, seed).unwrap();
        prop_assert_eq!(bucketed.length(), buckets.iter().map(|bucket| bucket.0).sum::<u64>());
        let first = pass * bucketed.batches();
        let mut drawn = Vec::new();
        let mut batches = vec![0; buckets.len()];
        for step in first..first + bucketed.batches() {
            let (bucket, size) = bucketed.bucket_at(step);
            let batch = bucketed.batch_at(step).unwrap();
            let start: u64 = buckets[..bucket].iter().map(|bucket| bucket.0).sum();
            prop_assert_eq!((batch.len() as u64, size), (buckets[bucket].1, buckets[bucket].1));
            prop_assert!(batch.iter().all(|index| (start..start + buckets[bucket].0).contains(index)));
            batches[bucket] += 1;
            drawn.extend(batch);
        }
        let count = drawn.len();
        drawn.sort_unstable();
        drawn.dedup();
        prop_assert_eq!(drawn.len(), count);
        for (&(records, size), batches) in buckets.iter().zip(batches) {
            prop_assert_eq!(records / size, batches);
        }
    }

    #[test]
    fn every_part_of_a_batch_is_a_slice_of_it(
        (buckets, mode, seed) in small(), step in prop_oneof![0..50_u64, 0..=MAX_STEP, Just(MAX_STEP)],
        cuts: [prop::sample::Index; 2],
    ) {
        let bucketed = Bucketed::new(&buckets, mode, seed).unwrap();
        let batch = bucketed.batch_at(step).unwrap();
        let mut cuts = cuts.map(|cut| cut.index(batch.len() + 1));
        cuts.sort_unstable();
        let [start, end] = cuts;
        let mut part = vec![u64::MAX; end - start];
        bucketed.fill_range(step, start as u64, &mut part).unwrap();
        prop_assert_eq!(&part, &batch[start..end]);
        let beyond = bucketed.fill_range(step, 1, &mut vec![0; batch.len()]);
        prop_assert!(matches!(beyond, Err(Error::RangeBeyondBatch { start: 1, .. })), "{beyond:?}");
    }
}

#[test]
fn passes_differ_and_so_do_buckets_of_one_size() {
    let bucketed = Bucketed::new(&[(64, 8); 4], Mode::Cyclic, 7).unwrap();
    let pass = |number: u64| -> Vec<Vec<u64>> {
        (0..32).map(|step| bucketed.batch_at(number * 32 + step).unwrap()).collect()
    };
    assert_ne!(pass(0), pass(1));
    // What each bucket draws in its first batch, as places in the bucket.
    let mut firsts = vec![None; 4];
    for step in 0..32 {
        let (bucket, _) = bucketed.bucket_at(step);
        let places: Vec<u64> = bucketed.batch_at(step).unwrap().iter().map(|index| index % 64).collect();
        firsts[bucket].get_or_insert(places);
    }
    firsts.sort_unstable();
    firsts.dedup();
    assert_eq!(firsts.len(), 4);
}

#[test]
fn every_place_of_a_pass_is_as_likely_to_be_a_buckets() {
    // One batch in ten is bucket 1's: how often each place is, over passes.
    let bucketed = Bucketed::new(&[(18, 2), (3, 3)], Mode::Cyclic, 11).unwrap();
    let mut counts = [0_u32; 10];
    for step in (0..50_000).filter(|&step| bucketed.bucket_at(step).0 == 1) {
        counts[usize::try_from(step % 10).unwrap()] += 1;
    }
    assert_eq!(counts.iter().sum::<u32>(), 5000);
    // A deviation is sqrt(0.1 * 0.9 * 5000) = 21.
    assert!(counts.iter().all(|count| count.abs_diff(500) < 6 * 21), "{counts:?}");
}

#[test]
fn what_fills_no_batch_is_another_in_each_pass() {
    let bucketed = Bucketed::new(&[(9, 2), (7, 3)], Mode::Cyclic, 3).unwrap();
    let mut missed = [0_u32; 16];
    for pass in 0..7000 {
        let drawn: Vec<u64> = (0..6).flat_map(|batch| bucketed.batch_at(pass * 6 + batch).unwrap()).collect();
        for record in (0..16).filter(|record| !drawn.contains(record)) {
            missed[usize::try_from(record).unwrap()] += 1;
        }
    }
    // One of nine and one of seven, with deviations of 26 and 29.
    assert!(missed[..9].iter().all(|count| count.abs_diff(778) < 6 * 26), "{missed:?}");
    assert!(missed[9..].iter().all(|count| count.abs_diff(1000) < 6 * 29), "{missed:?}");
}

#[test]
fn sequential_order_is_that_of_the_buckets() {
    let bucketed = Bucketed::new(&[(5, 2), (3, 1)], Mode::Sequential, 9).unwrap();
    let batches: Vec<Vec<u64>> = (0..10).map(|step| bucketed.batch_at(step).unwrap()).collect();
    assert_eq!(batches[..5], [vec![0, 1], vec![2, 3], vec![5], vec![6], vec![7]]);
    assert_eq!(batches[5..], [vec![4, 0], vec![1, 2], vec![5], vec![6], vec![7]]);
}

#[test]
fn far_steps_and_huge_buckets_do_not_wrap() {
    for mode in [Mode::Sequential, Mode::Cyclic] {
        let buckets = [(u64::MAX - (1 << 61), 1), (1 << 61, MAX_BATCH_SIZE)];
        let bucketed = Bucketed::new(&buckets, mode, 42).unwrap();
        assert_eq!(bucketed.length(), u64::MAX);
        for step in [0, 1, 1 << 61, 1 << 62, MAX_STEP - 1, MAX_STEP] {
            let mut index = [0];
            bucketed.fill_range(step, bucketed.bucket_at(step).1 - 1, &mut index).unwrap();
            assert!(index[0] < u64::MAX);
        }
        let error = bucketed.fill_range(MAX_STEP + 1, 0, &mut [0]).unwrap_err();
        assert_eq!(error, Error::StepTooLarge { step: MAX_STEP + 1 });
    }
}

#[test]
fn buckets_that_are_refused() {
    let new = |buckets: &[(u64, u64)]| Bucketed::new(buckets, Mode::Cyclic, 0).unwrap_err();
    assert_eq!(new(&[]), Error::NoBuckets);
    assert_eq!(new(&[(3, 1), (3, 0)]), Error::EmptyBatch);
    assert_eq!(new(&[(u64::MAX, 1 << 60)]), Error::BatchTooLarge { batch_size: 1 << 60 });
    assert_eq!(new(&[(3, 1), (3, 4)]), Error::ShortBucket { bucket: 1, records: 3, batch_size: 4 });
    assert_eq!(new(&[(0, 1)]), Error::ShortBucket { bucket: 0, records: 0, batch_size: 1 });
    assert_eq!(new(&[(u64::MAX, 1), (1, 1)]), Error::BucketsOverflow);
    let many = vec![(1, 1); usize::try_from(MAX_BUCKETS).unwrap() + 1];
    assert_eq!(new(&many), Error::TooManyBuckets { found: MAX_BUCKETS + 1 });
    assert!(Bucketed::new(&many[1..], Mode::Cyclic, 0).is_ok());
    assert_eq!(Bucketed::new(&[(1, 1)], Mode::Iid, 0).unwrap_err(), Error::IidBuckets);
}
