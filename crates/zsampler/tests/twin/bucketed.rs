//! Batches of buckets.

use zsampler::Mode;

use super::{batch, permuted, sip_2_4};

/// The batch of a step.
pub(crate) fn bucketed(buckets: &[(u64, u64)], mode: Mode, seed: u64, step: u64) -> Vec<u64> {
    let batches: Vec<u64> = buckets.iter().map(|(records, size)| records / size).collect();
    let per_pass: u64 = batches.iter().sum();
    let (pass, mut place) = (step / per_pass, step % per_pass);
    if mode == Mode::Cyclic {
        let place_in_pass = permuted(per_pass.into(), seed, *b"bktpos/1", pass.into(), place.into());
        place = u64::try_from(place_in_pass).unwrap();
    }
    let mut first = 0;
    for (number, (&(records, size), &batches)) in buckets.iter().zip(&batches).enumerate() {
        if place < batches {
            let own = u64::try_from(sip_2_4(seed, *b"bktrec/1", number as u128, 0)).unwrap();
            let indices = batch(records, size, mode, own, pass * batches + place);
            return indices.into_iter().map(|index| first + index).collect();
        }
        place -= batches;
        first += records;
    }
    unreachable!("the places of a pass are those of its buckets")
}
