use proptest::prelude::*;

use super::*;
use crate::slots;

/// What every kernel gives, which is what the draws give one by one.
fn fill(bound: u64, seed: u64, position: u128, count: usize) -> Vec<u64> {
    let range = Range::new(bound);
    let mut expected = vec![0; count];
    Draws::new(range, seed, position).one_by_one(0, slots::of(&mut expected));
    for kernel in Kernel::all() {
        let mut found = vec![u64::MAX; count];
        super::fill(kernel, range, seed, position, slots::of(&mut found));
        assert_eq!(found, expected, "{kernel:?}, bound {bound}");
    }
    let mut picked: Vec<u64> = (0..count as u64).rev().collect();
    pick(range, seed, position, &mut picked);
    picked.reverse();
    assert_eq!(picked, expected, "bound {bound}");
    expected
}

#[test]
fn all_kernels_draw_the_same_below_every_bound() {
    // Just below 2^24 one draw in 256 is in doubt, and so most groups are drawn twice.
    for bits in 0..64 {
        for bound in [(1_u64 << bits) - 1, 1 << bits, (1 << bits) + 1] {
            if bound > 0 {
                assert!(fill(bound, 42, 1000, 5000).iter().all(|&index| index < bound));
            }
        }
    }
}

proptest! {
    #[test]
    fn all_kernels_draw_the_same(
        bound in prop_oneof![1..=1_u64 << 25, 1..=1_u64 << 33, 1..=u64::MAX],
        seed: u64,
        position in 0..u128::from(u64::MAX) - 1000,
        count in 0..300_usize,
    ) {
        fill(bound, seed, position, count);
    }
}

struct Doubts<'a>(u64, u32, &'a mut [bool; 2]);

impl Task for Doubts<'_> {
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self(state, bound, found) = self;
        let mut slots = [MaybeUninit::uninit(); 64];
        let slots = &mut slots[..2 * L::COUNT];
        *found = [
            Stream::<L, 2, true>::new(lanes, state, 2 * L::COUNT, bound).draw(slots, || ()),
            Stream::<L, 2, false>::new(lanes, state, 2 * L::COUNT, bound).draw(slots, || ()),
        ];
    }
}

#[test]
fn a_word_that_may_be_rejected_is_in_doubt_in_every_lane() {
    // SplitMix64 makes the word 0 of the state 0, and 0 is the first word to be rejected.
    for kernel in Kernel::all() {
        for lane in 0..16_u64 {
            let mut found = [false; 2];
            kernel.run(Doubts(GAMMA.wrapping_mul(lane).wrapping_neg(), 1_000_000, &mut found));
            let reached = match kernel {
                Kernel::One(_) => lane < 2,
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2(_) => lane < 8,
            };
            assert_eq!(found, [reached; 2], "{kernel:?}, lane {lane}");
        }
    }
}
