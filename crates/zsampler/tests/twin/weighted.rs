//! Weighted draws.

use super::{TWO_64, bounded, integers, quotient, sip_2_4, splitmix, times};

/// The batch of a step.
pub(crate) fn weighted(weights: &[f64], batch_size: u64, seed: u64, step: u64) -> Vec<u64> {
    let table = table(weights);
    (0..batch_size)
        .map(|j| {
            let position = u128::from(step) * u128::from(batch_size) + u128::from(j);
            let column = bounded(weights.len() as u128, seed, *b"weight/1", position, 1);
            let coin = splitmix(sip_2_4(seed, *b"weight/1", position / TWO_64, 0), position % TWO_64);
            let column = usize::try_from(column).unwrap();
            let (cut, other) = table[column];
            if coin < cut { column as u64 } else { other as u64 }
        })
        .collect()
}

/// Cut and other of each column.
fn table(weights: &[f64]) -> Vec<(u128, usize)> {
    let integers = integers(weights);
    let (unit, rest) = quotient(weights.len() as u128 * TWO_64, integers.iter().sum());
    let unit = unit + u128::from(rest > 0);
    let upto = |item: usize| times(integers[..item].iter().sum(), unit).0;
    let mut mass: Vec<u128> = (0..weights.len()).map(|item| upto(item + 1) - upto(item)).collect();

    let mut columns = vec![None; mass.len()];
    let mut giver = 0;
    for item in 0..mass.len() {
        let mut taker = item;
        while columns[taker].is_none() && mass[taker] < TWO_64 {
            while columns[giver].is_some() || mass[giver] < TWO_64 {
                giver += 1;
            }
            columns[taker] = Some((mass[taker], giver));
            mass[giver] -= TWO_64 - mass[taker];
            if mass[giver] >= TWO_64 || giver > item {
                break;
            }
            taker = giver;
        }
    }
    columns.into_iter().enumerate().map(|(item, column)| column.unwrap_or((0, item))).collect()
}
