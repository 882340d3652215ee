//! The permutation of numbers that lie anywhere, rather than of a run of places.

use super::{BLOCK, GROUP, Lanes, MAX_GROUP, Permutation, note, store_all};
use crate::lanes::{Kernel, Task};
use crate::slots;

impl Permutation {
    /// The indices at these places, which are below the length, in their stead.
    pub(crate) fn apply(&self, kernel: Kernel, places: &mut [u64]) {
        kernel.run(Apply { permutation: self, numbers: places });
    }
}

struct Apply<'a> {
    permutation: &'a Permutation,
    numbers: &'a mut [u64],
}

impl Task for Apply<'_> {
    /// In blocks, as a run of places is.
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { permutation, numbers } = self;
        let size = GROUP * L::COUNT;
        let (length, full) = (permutation.domain.length, permutation.domain.is_full());
        let mut outside = [0_u16; BLOCK];
        for block in numbers.chunks_mut(BLOCK) {
            let mut found = 0;
            let mut at = 0;
            for group in block.chunks_mut(size) {
                // Lanes beyond the block's end hold 0 and are left out.
                let mut loaded = [0; MAX_GROUP];
                for (lane, &mut number) in loaded.iter_mut().zip(&mut *group) {
                    *lane = number;
                }
                let mut vectors = [lanes.splat(0); GROUP];
                for (vector, lane) in vectors.iter_mut().zip(loaded.chunks_exact(L::COUNT)) {
                    *vector = lanes.load(lane);
                }
                permutation.forward(lanes, &mut vectors);
                let permuted = store_all(lanes, vectors, slots::of(group));
                if !full {
                    for &mut number in permuted {
                        note(&mut outside, &mut found, at, number >= length);
                        at += 1;
                    }
                }
            }
            if let Some(outside) = outside.get_mut(..found).filter(|outside| !outside.is_empty()) {
                permutation.walk(lanes, block, outside);
            }
        }
    }
}
