//! The parts of a batch that ranks take.

use proptest::prelude::*;
use zsampler::{Error, share};

#[expect(clippy::unwrap_used, reason = "test code outside of a test function")]
fn assert_parts(batch_size: u64, world_size: u64) {
    let mut next = 0;
    let (mut least, mut most) = (u64::MAX, 0);
    for rank in 0..world_size {
        let part = share(batch_size, rank, world_size).unwrap();
        assert_eq!(part.start, next, "rank {rank} of {world_size}, batches of {batch_size}");
        let size = part.end - part.start;
        (least, most, next) = (least.min(size), most.max(size), part.end);
    }
    assert_eq!(next, batch_size);
    assert!(most - least <= 1, "{world_size} parts of {batch_size}: {least} to {most}");
}

#[test]
fn parts_are_the_batch_and_nearly_equal() {
    for world_size in 1..=9 {
        for batch_size in (0..=17).chain([1000, (1 << 60) - 1, u64::MAX - 1, u64::MAX]) {
            assert_parts(batch_size, world_size);
        }
    }
}

proptest! {
    #[test]
    fn parts_are_the_batch_whatever_the_world(batch_size: u64, world_size in 1..300_u64) {
        assert_parts(batch_size, world_size);
    }

    #[test]
    fn ranks_of_a_huge_world_follow_one_another(batch_size: u64, world_size in 2..=u64::MAX, rank: prop::sample::Index) {
        let rank = (rank.index(1 << 31) as u64).wrapping_mul(0x1_0000_0001) % (world_size - 1);
        let [one, next] = [rank, rank + 1].map(|rank| share(batch_size, rank, world_size).unwrap());
        prop_assert_eq!(one.end, next.start);
        let [one, next] = [one, next].map(|part| part.end - part.start);
        prop_assert!(one.abs_diff(next) <= 1);
        prop_assert_eq!(share(batch_size, world_size - 1, world_size).unwrap().end, batch_size);
        prop_assert_eq!(share(batch_size, 0, world_size).unwrap().start, 0);
    }
}

#[test]
fn what_is_no_rank_is_refused() {
    assert_eq!(share(8, 0, 0), Err(Error::EmptyWorld));
    for rank in [4, 5, u64::MAX] {
        assert_eq!(share(8, rank, 4), Err(Error::RankOutOfRange { rank, world_size: 4 }));
    }
    let message = share(8, 4, 4).unwrap_err().to_string();
    assert_eq!(message, "rank 4 is out of range for a world of 4: ranks count from 0");
}
