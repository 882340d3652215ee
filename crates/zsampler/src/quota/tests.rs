use proptest::prelude::*;

use super::*;

fn divided(weights: &[f64]) -> Quota {
    Quota::divided(Scale::new(weights).unwrap(), weights)
}

fn fixed(weights: &[f64], batch_size: u64) -> Result<Quota, NotWhole> {
    Quota::fixed(Scale::new(weights).unwrap(), weights, batch_size)
}

/// The counts of the first so many records.
fn counts(quota: &Quota, components: usize, records: u128) -> Vec<u128> {
    let mut counts = vec![u128::MAX; components];
    quota.fill(records, 1, &mut counts);
    counts
}

fn weights() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(
        prop_oneof![Just(0.0), 0.0..1.0, (-60..60_i32).prop_map(|exponent| 2_f64.powi(exponent))],
        1..40,
    )
    .prop_filter("some weight", |weights| weights.iter().any(|&weight| weight > 0.0))
}

proptest! {
    #[test]
    fn each_record_is_one_components_and_shares_are_kept(
        weights in weights(), from in prop_oneof![0..1000_u128, 0..1_u128 << 40, 0..1_u128 << 124],
    ) {
        let quota = divided(&weights);
        let sum: f64 = weights.iter().sum();
        let levels = weights.len().next_power_of_two().ilog2();
        let mut before = counts(&quota, weights.len(), from);
        for records in from + 1..from + 200 {
            let now = counts(&quota, weights.len(), records);
            prop_assert_eq!(now.iter().sum::<u128>(), records);
            let grown: Vec<u128> = now.iter().zip(&before).map(|(now, before)| now - before).collect();
            prop_assert_eq!(grown.iter().sum::<u128>(), 1);
            for (&count, &weight) in now.iter().zip(&weights) {
                prop_assert!(weight > 0.0 || count == 0);
                if records < 1 << 40 {
                    let share = records as f64 * (weight / sum);
                    prop_assert!((count as f64 - share).abs() <= f64::from(levels) / 2.0 + 1e-3);
                }
            }
            before = now;
        }
    }

    #[test]
    fn whole_shares_are_the_counts_of_every_batch(parts in prop::collection::vec(0..20_u64, 1..20), unit: f64) {
        let batch_size: u64 = parts.iter().sum();
        let unit = unit.abs();
        prop_assume!(batch_size > 0 && (1e-290..1e290).contains(&unit));
        let weights: Vec<f64> = parts.iter().map(|&part| part as f64 * unit).collect();
        let quota = fixed(&weights, batch_size).unwrap();
        for batches in [0, 1, 17, 1 << 64] {
            let mut counts = vec![0; parts.len()];
            quota.fill(batches, batch_size, &mut counts);
            prop_assert!(counts.iter().zip(&parts).all(|(&count, &part)| count == batches * u128::from(part)));
        }
    }
}

#[test]
fn three_tenths_of_ten_are_three() {
    for (weights, of_ten) in [
        (&[0.3, 0.7][..], &[3, 7][..]),
        (&[0.7, 0.3], &[7, 3]),
        (&[0.1, 0.2, 0.7], &[1, 2, 7]),
        (&[0.3, 0.3, 0.4], &[3, 3, 4]),
        (&[0.5, 0.0, 0.5], &[5, 0, 5]),
    ] {
        let quota = divided(weights);
        for tens in [1, 2, 3, 1000, 123_456_789] {
            let expected: Vec<u128> = of_ten.iter().map(|&count| count * tens).collect();
            assert_eq!(counts(&quota, weights.len(), 10 * tens), expected, "{weights:?}");
        }
    }
}

#[test]
fn the_far_end_is_as_exact() {
    // The largest batch at the last step: thirds of 2^124 are off by what is rounded.
    let records = (1_u128 << 124) - 1;
    let thirds = counts(&divided(&[1.0, 1.0, 1.0]), 3, records);
    assert!(thirds.iter().all(|&count| count.abs_diff(records / 3) <= 1), "{thirds:?}");
    assert_eq!(counts(&divided(&[0.0, 1.0, 0.0]), 3, records), [0, records, 0]);
    assert_eq!(counts(&divided(&[1e-300, 1.0]), 2, records), [0, records]);
}

#[test]
fn a_thousand_components_keep_their_shares() {
    let weights: Vec<f64> = (1..=1000).map(f64::from).collect();
    let quota = divided(&weights);
    for records in [1, 1000, 500_500, 123_456_789_u128] {
        let counts = counts(&quota, 1000, records);
        assert_eq!(counts.iter().sum::<u128>(), records);
        for (&count, weight) in counts.iter().zip(&weights) {
            assert!((count as f64 - records as f64 * weight / 500_500.0).abs() <= 5.0);
        }
    }
}

#[test]
fn shares_that_are_no_counts_are_refused() {
    let refused = fixed(&[0.3, 0.7], 7).unwrap_err();
    assert_eq!(refused.component, 0);
    assert!((refused.product - 2.1).abs() < 1e-12);
    assert_eq!(fixed(&[1.0, 1e-3], 1000).unwrap_err().component, 0);
    // None at all is whole, but not what the weight says.
    assert_eq!(fixed(&[1e-300, 1.0], 8).unwrap_err().component, 0);
    assert_eq!(fixed(&[1.0, 1e-15], 8).unwrap_err().component, 1);
    // Beyond the precision of a float.
    assert!(fixed(&[1.0, 1.0, 1.0], (1 << 60) - 2).is_err());
    assert!(fixed(&[1.0, 1.0], 1 << 59).is_ok());
}
