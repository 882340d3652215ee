use proptest::prelude::*;

use super::*;

/// The mass of each item, from the finished table.
fn masses(columns: &[Column]) -> Vec<u128> {
    let mut masses = vec![0; columns.len()];
    for (item, column) in columns.iter().enumerate() {
        assert_eq!(column.other & DONE, 0);
        masses[item] += u128::from(column.cut);
        masses[usize::try_from(column.other).unwrap()] += HEIGHT - u128::from(column.cut);
    }
    masses
}

/// Each item has the share of its weight to one unit of all columns, and none if the weight is 0.
fn assert_shares(weights: &[f64]) {
    let columns = columns(weights).unwrap();
    let masses = masses(&columns);
    let scale = Scale::new(weights).unwrap();
    let sum: u128 = weights.iter().map(|&weight| scale.integer(weight)).sum();
    assert_eq!(masses.iter().sum::<u128>(), columns.len() as u128 * HEIGHT);
    for (&weight, &mass) in weights.iter().zip(&masses) {
        // The exact mass is a whole number and a fraction: the mass is that number or the next.
        let (fraction, _) = crate::wide::fraction(scale.integer(weight), sum);
        let below = share_below(columns.len() as u128 * HEIGHT, fraction);
        assert!((below..=below + 2).contains(&mass) || below == mass + 1, "{weight:?}: {mass} for {below}");
        assert!(weight > 0.0 || mass == 0);
    }
    for (item, column) in (0..).zip(&columns) {
        for coin in [0, column.cut.saturating_sub(1), column.cut, u64::MAX] {
            let drawn = usize::try_from(column.pick(item, coin)).unwrap();
            assert!(weights[drawn] > 0.0, "a coin {coin} in column {item} draws a weight of 0");
        }
    }
}

#[test]
fn odd_weights_have_their_shares() {
    for weights in [
        &[1.0][..],
        &[0.1],
        &[5e-324],
        &[1e-300, 1.0],
        &[1.0, 1e-300],
        &[0.0, 0.0, 1.0],
        &[1.0, 0.0, 0.0],
        &[5e-324, 1e-323, 0.0, f64::MIN_POSITIVE],
        &[f64::MAX, 1.0, 5e-324],
        &[f64::MAX / 2.0, f64::MAX / 2.0],
        &[1.0, 1e-19, 1e-20, 1e-25],
    ] {
        assert_shares(weights);
    }
}

#[test]
fn equal_weights_fill_columns_alone() {
    for weight in [1.0, 0.1, 5e-324, 1e300] {
        for count in [1, 2, 3, 7, 64, 1000] {
            let columns = columns(&vec![weight; count]).unwrap();
            assert!((0..).zip(&columns).all(|(item, column)| column.other == item), "{count} of {weight:?}");
        }
    }
}

#[test]
fn equal_weights_among_others_differ_by_a_unit_at_most() {
    let weights: Vec<f64> = (0..999).map(|item| f64::from(item % 3) + 0.1).collect();
    let masses = masses(&columns(&weights).unwrap());
    for kind in 0..3 {
        let of = || masses.iter().skip(kind).step_by(3);
        assert!(of().max().unwrap() - of().min().unwrap() <= 1);
    }
}

/// Weights in proportion to 1 / rank have their shares to a part in 10^12.
fn assert_shares_of_ranks(count: u32) {
    let weights: Vec<f64> = (1..=count).map(|rank| 1e6 / f64::from(rank)).collect();
    let sum: f64 = weights.iter().rev().sum();
    let masses = masses(&columns(&weights).unwrap());
    let whole = weights.len() as f64 * HEIGHT as f64;
    for (weight, mass) in weights.iter().zip(masses) {
        assert!((mass as f64 / whole * sum / weight - 1.0).abs() < 1e-12);
    }
}

#[test]
fn a_large_table_has_the_shares_of_its_weights() {
    assert_shares_of_ranks(1 << 18);
}

#[test]
#[ignore = "2 GiB of memory"]
fn a_table_of_2_pow_25_weights_has_the_shares_of_its_weights() {
    assert_shares_of_ranks(1 << 25);
}

proptest! {
    #[test]
    fn all_weights_have_their_shares(
        weights in prop::collection::vec(
            prop_oneof![Just(0.0), 0.0..1.0, (-1074..900_i32).prop_map(|exponent| 2_f64.powi(exponent))],
            1..60,
        ),
    ) {
        prop_assume!(weights.iter().any(|&weight| weight > 0.0));
        assert_shares(&weights);
    }
}
