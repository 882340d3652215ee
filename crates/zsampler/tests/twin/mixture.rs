//! Mixtures.

use zsampler::Mode;

use super::{integers, permuted, quotient, record, sip_2_4, times};

/// A mixture whose shares are not exact.
pub(crate) fn mixture(
    lengths: &[u64],
    batch_size: u64,
    mode: Mode,
    seed: u64,
    schedule: &[(u64, Vec<f64>)],
    step: u64,
) -> Vec<(u32, u64)> {
    let mut first = vec![0; lengths.len()];
    let mut counts = first.clone();
    for (entry, (from, weights)) in schedule.iter().enumerate().take_while(|(_, (from, _))| *from <= step) {
        let integers = integers(weights);
        let records = |to: u128| quota(&integers, (to - u128::from(*from)) * u128::from(batch_size));
        let next = schedule.get(entry + 1).map_or(u64::MAX, |next| next.0);
        let end = records(u128::from(next.min(step)));
        first.iter_mut().zip(&end).for_each(|(first, records)| *first += records);
        let after = records(u128::from(step) + 1);
        counts = after.iter().zip(end).map(|(after, before)| after - before).collect();
    }
    let slots: Vec<(usize, u128)> = (0..lengths.len())
        .flat_map(|component| (0..counts[component]).map(move |offset| (component, offset)))
        .map(|(component, offset)| (component, first[component] + offset))
        .collect();
    assert_eq!(slots.len() as u64, batch_size);
    (0..u128::from(batch_size))
        .map(|place| {
            let slot = permuted(batch_size.into(), seed, *b"mixpos/1", step.into(), place);
            let (component, number) = slots[usize::try_from(slot).unwrap()];
            let own = u64::try_from(sip_2_4(seed, *b"mixrec/1", component as u128, 0)).unwrap();
            let length = u128::from(lengths[component]);
            let cycle = [number / length % (1 << 64), number % length];
            (u32::try_from(component).unwrap(), record(length, mode, own, number, cycle))
        })
        .collect()
}

/// How many of the first `records` are of each component.
fn quota(integers: &[u128], records: u128) -> Vec<u128> {
    if integers.len() == 1 {
        return vec![records];
    }
    let (left, right) = integers.split_at(integers.len() / 2);
    let [share, whole]: [u128; 2] = [left.iter().sum(), integers.iter().sum()];
    let fraction = if share == 0 {
        0
    } else {
        let (quotient, rest) = quotient(share, whole);
        quotient + u128::from(rest * 2 >= whole)
    };
    let (below, rest) = times(records, fraction);
    let share = below + u128::from(rest >= 1 << 126);
    [quota(left, share), quota(right, records - share)].concat()
}
