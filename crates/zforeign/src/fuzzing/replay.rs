//! Inputs that were kept, and many that are made up, through the function that the fuzzer runs.

use std::path::Path;

use proptest::prelude::*;

use super::foreign;

/// The files of `fuzz/{kind}/foreign`.
#[expect(clippy::disallowed_methods, reason = "inputs of tests")]
fn kept(kind: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(kind).join("foreign");
    // No case may have been found.
    let Ok(names) = std::fs::read_dir(path) else { return Vec::new() };
    names.map(|name| std::fs::read(name.unwrap().path()).unwrap()).collect()
}

#[test]
fn what_the_fuzzer_found_stays_mended() {
    kept("found").iter().for_each(|input| foreign(input));
}

#[test]
fn seeds_break_no_law() {
    let seeds = kept("seeds");
    assert!(seeds.len() >= 10, "{} seeds", seeds.len());
    seeds.iter().for_each(|input| foreign(input));
}

proptest! {
    #[test]
    fn made_up_inputs_break_no_law(input in prop::collection::vec(any::<u8>(), 0..700)) {
        foreign(&input);
    }

    #[test]
    fn changed_seeds_break_no_law(seed in 0..64_usize, changes in prop::collection::vec(any::<(u16, u8)>(), 0..4)) {
        let seeds = kept("seeds");
        let mut input = seeds[seed % seeds.len()].clone();
        for (at, byte) in changes {
            let at = usize::from(at) % input.len();
            input[at] = byte;
        }
        foreign(&input);
    }
}
