use super::*;
use crate::rng::splitmix_at;
use crate::slots;

/// Everything that a vector can do, of two lists of numbers, one lane after the other.
struct Everything<'a>(&'a [u64; 8], &'a [u64; 8], &'a mut Vec<(&'static str, Vec<u64>)>);

const LOW: u64 = 0xffff_ffff;

impl Task for Everything<'_> {
    fn run<L: Lanes>(self, lanes: L) {
        let Self(a, b, found) = self;
        let mut note = |name, mask: u64, operation: &dyn Fn(L::Vector, L::Vector) -> L::Vector| {
            let mut results = [0; 8];
            for ((a, b), results) in
                a.chunks(L::COUNT).zip(b.chunks(L::COUNT)).zip(results.chunks_mut(L::COUNT))
            {
                lanes.store(operation(lanes.load(a), lanes.load(b)), slots::of(results));
            }
            found.push((name, results.map(|result| result & mask).to_vec()));
        };
        note("load", u64::MAX, &|a, _| a);
        note("splat", u64::MAX, &|_, _| lanes.splat(a[3]));
        note("add", u64::MAX, &|a, b| lanes.add(a, b));
        note("xor", u64::MAX, &|a, b| lanes.xor(a, b));
        note("and", u64::MAX, &|a, b| lanes.and(a, b));
        note("or", u64::MAX, &|a, b| lanes.or(a, b));
        note("times_low", u64::MAX, &|a, b| lanes.times_low(a, b));
        note("upper", LOW, &|a, _| lanes.upper(a));
        note("max_lower", LOW, &|a, b| lanes.max_lower(a, b));
        for by in [0, 1, 27, 31] {
            note("shift_lower", LOW, &|a, _| lanes.shift_lower(a, by));
        }
        for by in [0, 1, 32, 63] {
            note("shift_left", u64::MAX, &|a, _| lanes.shift_left(a, by));
            note("shift_right", u64::MAX, &|a, _| lanes.shift_right(a, by));
        }
        for by in *b {
            let product = |a, upper| {
                let mut both = [a, a];
                if upper {
                    lanes.times_upper(&mut both, by, || ())
                } else {
                    lanes.times(&mut both, by, || ())
                }
                both[1]
            };
            note("times", u64::MAX, &|a, _| product(a, false));
            note("times_upper", LOW, &|a, _| product(a, true));
        }
        let counts: Vec<u64> = (0..8 / L::COUNT as u64)
            .flat_map(|i| {
                let mut counts = [0; 8];
                let first = a[0].wrapping_add(b[0].wrapping_mul(i * L::COUNT as u64));
                lanes.store(lanes.ramp(first, b[0]), slots::of(&mut counts));
                counts[..L::COUNT].to_vec()
            })
            .collect();
        found.push(("ramp", counts));
        let bounds = [0, 1, 1 << 31, u32::MAX];
        let reached = |bound| a.chunks(L::COUNT).any(|a| lanes.any_lower(lanes.load(a), bound));
        found.push(("any_lower", bounds.map(|bound| u64::from(reached(bound))).to_vec()));
        found.push(("single", vec![lanes.single(a[0])]));
    }
}

fn everything(kernel: Kernel, a: &[u64; 8], b: &[u64; 8]) -> Vec<(&'static str, Vec<u64>)> {
    let mut found = Vec::new();
    kernel.run(Everything(a, b, &mut found));
    found
}

#[test]
fn every_kernel_computes_what_one_number_at_a_time_does() {
    for i in 0..2000 {
        // Numbers with many, few and no bits set.
        let numbers = |seed| {
            std::array::from_fn(|lane| {
                let number = splitmix_at(seed, i * 8 + lane as u64);
                if i % 3 == 0 { number } else { number & splitmix_at(seed + 2, i) & splitmix_at(seed + 4, i) }
            })
        };
        let (a, b) = (numbers(1), numbers(2));
        let expected = everything(Kernel::One(One), &a, &b);
        for kernel in Kernel::all() {
            assert_eq!(everything(kernel, &a, &b), expected, "{kernel:?} of {a:x?} and {b:x?}");
        }
    }
}

#[test]
fn one_number_at_a_time_is_plain_arithmetic() {
    let (a, b) = ([u64::MAX, 1 << 40, 7, 0, 5, 6, 7, 8], [3; 8]);
    let found = everything(Kernel::One(One), &a, &b);
    let first = |name| found.iter().find(|(found, _)| *found == name).map(|(_, results)| results[0]);
    assert_eq!(first("add"), Some(2));
    assert_eq!(first("times"), Some(u64::MAX.wrapping_mul(3)));
    assert_eq!(first("times_upper"), Some(u64::MAX.wrapping_mul(3) >> 32));
    assert_eq!(first("times_low"), Some(LOW * 3));
    assert_eq!(first("max_lower"), Some(LOW));
    assert_eq!(first("upper"), Some(LOW));
    assert_eq!(
        found.iter().find(|(name, _)| *name == "ramp").map(|(_, r)| r[..3].to_vec()),
        Some(vec![u64::MAX, 2, 5])
    );
}
