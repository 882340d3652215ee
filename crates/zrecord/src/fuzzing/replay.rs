//! Inputs that were kept, and many that are made up, through the functions that the fuzzer runs.

use std::path::Path;
use std::thread;

use super::{decode, open, ops};
use crate::storage::{Directory, RealDirectory, read_small};

type Target = (&'static str, fn(&[u8]), u64);

/// Inputs made up for each function: what a debug build runs in two seconds.
const MADE_UP: [Target; 3] = [("open", open, 700), ("decode", decode, 6000), ("ops", ops, 250)];

/// Says which input broke a law.
struct Witness<'a>(&'a str, &'a [u8]);

impl Drop for Witness<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("{} of {:02x?}", self.0, self.1);
        }
    }
}

fn run(target: fn(&[u8]), name: &str, input: &[u8]) {
    let _witness = Witness(name, input);
    target(input);
}

/// The files of `fuzz/{kind}/{target}`.
fn kept(kind: &str, target: &str) -> Vec<(String, Vec<u8>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(kind).join(target);
    let dir = RealDirectory::new(&path, false);
    // No case may have been found.
    let names = dir.list().unwrap_or_default();
    let read = |name: String| {
        let bytes = read_small(&dir, &name, 1 << 20).unwrap().unwrap();
        (format!("{kind}/{target}/{name}"), bytes)
    };
    names.into_iter().map(read).collect()
}

/// Bytes that are often small, as choices are.
fn made_up(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33).to_le_bytes()
    };
    let length = usize::from(next()[0]) + usize::from(next()[0] % 8) * 16;
    let byte = |[kind, byte, ..]: [u8; 8]| if kind % 3 == 0 { byte % 8 } else { byte };
    (0..length).map(|_| byte(next())).collect()
}

#[test]
fn what_the_fuzzer_found_stays_mended() {
    for (name, target, _) in MADE_UP {
        for (file, input) in kept("found", name) {
            run(target, &file, &input);
        }
    }
}

#[test]
fn seeds_break_no_law() {
    for (name, target, _) in MADE_UP {
        let seeds = kept("seeds", name);
        assert!(seeds.len() >= 10, "{name} has {} seeds", seeds.len());
        for (file, input) in seeds {
            run(target, &file, &input);
        }
    }
}

#[test]
fn made_up_inputs_break_no_law_of_open() {
    many("open");
}

#[test]
fn made_up_inputs_break_no_law_of_decode() {
    many("decode");
}

#[test]
fn made_up_inputs_break_no_law_of_ops() {
    many("ops");
}

/// Inputs made up from nothing, and from the seeds.
fn many(wanted: &str) {
    let (name, target, count) = MADE_UP.into_iter().find(|(name, ..)| *name == wanted).unwrap();
    let seeds = kept("seeds", name);
    for seed in 0..count {
        let bytes = made_up(seed);
        run(target, name, &bytes);
        let (_, changed) = &seeds[usize::try_from(seed).unwrap() % seeds.len()];
        let mut changed = changed.clone();
        for pair in bytes.chunks_exact(2).take(3) {
            let at = usize::from(pair[0]) % changed.len().max(1);
            changed.iter_mut().skip(at).take(1).for_each(|byte| *byte = pair[1]);
        }
        run(target, name, &changed);
    }
}
