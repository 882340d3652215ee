use proptest::prelude::*;

use super::*;

/// What every kernel gives.
fn fill(permutation: &Permutation, place: u64, out: &mut [u64]) {
    permutation.fill(Kernel::One(One), place, slots::of(out));
    for kernel in Kernel::all() {
        let mut other = vec![u64::MAX; out.len()];
        permutation.fill(kernel, place, slots::of(&mut other));
        assert_eq!(other, out, "{kernel:?}");

        // And one that takes the places as they come.
        let places = (0..out.len() as u64).rev().map(|offset| place.wrapping_add(offset));
        let mut scattered: Vec<u64> = places.collect();
        permutation.apply(kernel, &mut scattered);
        scattered.reverse();
        assert_eq!(scattered, out, "{kernel:?}");
    }
}

fn index(permutation: &Permutation, place: u64) -> u64 {
    let mut out = [0];
    fill(permutation, place, &mut out);
    out[0]
}

/// One pass, which may lead outside.
fn pass(permutation: &Permutation, number: u64) -> u64 {
    let mut numbers = [number; GROUP];
    permutation.forward(One, &mut numbers);
    numbers[0]
}

#[test]
fn a_bijection_with_its_inverse_for_every_length_to_1100() {
    for length in 1..=1100 {
        let permutation = Permutation::new(Domain::new(length), length * 31, Purpose::Cyclic, length % 7);
        let mut indices = vec![u64::MAX; usize::try_from(length).unwrap()];
        fill(&permutation, 0, &mut indices);
        for (place, &index) in (0..).zip(&indices) {
            assert_eq!(permutation.place(index), place, "length {length}");
        }
        indices.sort_unstable();
        assert!(indices.into_iter().eq(0..length), "length {length}");
    }
}

#[test]
fn the_domain_is_the_smallest_power_of_two_in_two_halves() {
    for bits in 0..=64_u32 {
        let smallest = if bits == 0 { 1 } else { (1_u128 << (bits - 1)) + 1 };
        for length in [smallest, 1_u128 << bits] {
            let Ok(length) = u64::try_from(length) else { continue };
            let Domain { right_bits, left_mask, right_mask, .. } = Domain::new(length);
            let left_bits = left_mask.count_ones();
            assert_eq!(left_bits + right_bits, bits, "length {length}");
            assert_eq!(right_mask.count_ones(), right_bits);
            assert!(left_bits == right_bits || left_bits == right_bits + 1);
            assert_eq!(left_mask.leading_zeros() + left_bits, 64);
        }
    }
}

#[test]
fn a_walk_is_short() {
    // Just above a power of two every second number lies outside: two passes a number are expected.
    let length = (1 << 20) + 1;
    let permutation = Permutation::new(Domain::new(length), 42, Purpose::Cyclic, 0);
    let mut passes = 0;
    for place in 0..10_000 {
        let mut number = place;
        loop {
            number = pass(&permutation, number);
            passes += 1;
            if number < length {
                break;
            }
        }
    }
    assert!((19_000..21_000).contains(&passes), "{passes} passes");
}

#[test]
fn one_changed_bit_of_the_input_changes_half_of_the_output() {
    for bits in [12_u32, 20, 33, 40, 64] {
        let length = u64::MAX >> (64 - bits);
        let permutation = Permutation::new(Domain::new(length), 42, Purpose::Cyclic, 0);
        let mut changed = 0;
        let places = 2000;
        for place in 0..places {
            let place = place * (length / places);
            let other = place ^ (1 << (place % u64::from(bits - 1)));
            changed += (index(&permutation, place) ^ index(&permutation, other)).count_ones();
        }
        let share = f64::from(changed) / (f64::from(bits) * places as f64);
        assert!((share - 0.5).abs() < 0.02, "{bits} bits: {share}");
    }
}

#[test]
fn one_changed_bit_of_the_key_changes_half_of_the_output() {
    let domain = Domain::new(1 << 40);
    let mut changed = 0;
    for bit in 0..64 {
        let [one, other] =
            [42, 42 ^ (1 << bit)].map(|seed| Permutation::new(domain, seed, Purpose::Cyclic, 0));
        for place in 0..50 {
            changed += (index(&one, place) ^ index(&other, place)).count_ones();
        }
    }
    let share = f64::from(changed) / (64.0 * 50.0 * 40.0);
    assert!((share - 0.5).abs() < 0.01, "{share}");
}

#[test]
fn two_places_a_half_apart_are_unrelated_over_many_cycles() {
    // The statistic that a Feistel network with too few rounds fails first: places that share their right half.
    // With 6 rounds at 512 records it lies about 14 standard deviations off.
    for (length, cycles) in [(512, 1_000_000), (1024, 300_000), (1 << 17, 100_000), (1 << 40, 100_000)] {
        let domain = Domain::new(length);
        let cells = length.min(1024);
        let mut counts = vec![0_u32; usize::try_from(cells).unwrap()];
        for cycle in 0..cycles {
            let permutation = Permutation::new(domain, 42, Purpose::Cyclic, cycle);
            let [one, other] = [0, domain.right_mask + 1].map(|place| pass(&permutation, place));
            counts[usize::try_from((one ^ other) / (length / cells)).unwrap()] += 1;
        }
        // Two places never hold the same record: where each cell is one value, the first cell stays empty.
        let counts = if cells == length { &counts[1..] } else { &counts[..] };
        let expected = cycles as f64 / counts.len() as f64;
        let statistic: f64 =
            counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
        let free = counts.len() as f64 - 1.0;
        let deviations = (statistic - free) / (2.0 * free).sqrt();
        assert!(deviations.abs() < 6.0, "{length} records: {deviations:.1} standard deviations");
    }
}

fn lengths() -> impl Strategy<Value = u64> {
    prop_oneof![
        1..=u64::MAX,
        1..=(1_u64 << 41),
        (2..64_u32, -3..=3_i64).prop_map(|(bits, off)| (1_u64 << bits).wrapping_add_signed(off)),
        Just(u64::MAX),
    ]
}

proptest! {
    #[test]
    fn the_inverse_finds_the_place_at_any_length(
        length in lengths(), seed: u64, cycle: u64, number: u64,
    ) {
        let permutation = Permutation::new(Domain::new(length), seed, Purpose::Cyclic, cycle);
        let number = number % length;
        let forth = index(&permutation, number);
        prop_assert!(forth < length);
        prop_assert_eq!(permutation.place(forth), number);
        let back = permutation.place(number);
        prop_assert!(back < length);
        prop_assert_eq!(index(&permutation, back), number);
    }

    #[test]
    fn numbers_side_by_side_equal_numbers_alone(length in 1..=5000_u64, seed: u64, from: u64, count in 0..300_u64) {
        let permutation = Permutation::new(Domain::new(length), seed, Purpose::Cyclic, 3);
        let from = from % length;
        let count = count.min(length - from);
        let mut together = vec![0; usize::try_from(count).unwrap()];
        fill(&permutation, from, &mut together);
        let alone: Vec<u64> = (from..from + count).map(|place| index(&permutation, place)).collect();
        prop_assert_eq!(together, alone);
    }
}
