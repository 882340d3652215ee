//! The whole order once more, written to be read beside the decision page rather than to be fast: wide integers,
//! one index at a time, no code shared with the crate.

mod bucketed;
mod mixture;
mod weighted;

pub(crate) use bucketed::bucketed;
pub(crate) use mixture::mixture;
pub(crate) use weighted::weighted;
use zsampler::Mode;

const TWO_64: u128 = 1 << 64;
const TWO_32: u128 = 1 << 32;

/// The batch of a step.
pub(crate) fn batch(length: u64, batch_size: u64, mode: Mode, seed: u64, step: u64) -> Vec<u64> {
    (0..batch_size)
        .map(|j| {
            let [n, b, s, j] = [length, batch_size, step, j].map(u128::from);
            let per_cycle = n / b.min(n);
            record(n, mode, seed, s * b + j, [s / per_cycle, s % per_cycle * b + j])
        })
        .collect()
}

/// The index at a position, which is a place in a cycle.
fn record(n: u128, mode: Mode, seed: u64, position: u128, [cycle, place]: [u128; 2]) -> u64 {
    let index = match mode {
        Mode::Sequential => position % n,
        Mode::Iid => bounded(n, seed, *b"iid/sm/1", position, 0),
        Mode::Cyclic => permuted(n, seed, *b"cyclic/1", cycle, place),
        mode => panic!("no twin for {mode:?}"),
    };
    u64::try_from(index).unwrap()
}

fn permuted(n: u128, seed: u64, tag: [u8; 8], cycle: u128, place: u128) -> u128 {
    let bits = (0..=64).find(|&bits| 1_u128 << bits >= n).unwrap();
    let rounds = match bits {
        0..=8 => 32,
        9..=16 => 8,
        _ => 6,
    };
    let right_size = 1_u128 << (bits / 2);
    let left_size = (1_u128 << bits) / right_size;
    let mut x = place;
    loop {
        let (mut left, mut right) = (x / right_size, x % right_size);
        for round in 0..rounds {
            let key = sip_2_4(seed, tag, cycle, round);
            if round % 2 == 0 {
                left ^= round_function(key, right) % left_size;
            } else {
                right ^= round_function(key, left) % right_size;
            }
        }
        x = left * right_size + right;
        if x < n {
            return x;
        }
    }
}

fn round_function(key: u128, half: u128) -> u128 {
    let fold = |x: u128| (x / TWO_32) ^ (x % TWO_32);
    let inner = fold((half ^ (key % TWO_32)) * 0xd251_1f53);
    fold((inner ^ (key / TWO_32)) * 0xcd9e_8d57)
}

/// A draw below `n`, whose attempts are the keys from `first` on.
fn bounded(n: u128, seed: u64, tag: [u8; 8], position: u128, first: u128) -> u128 {
    for attempt in first.. {
        let key = sip_2_4(seed, tag, position / TWO_64, attempt);
        let product = splitmix(key, position % TWO_64) * n;
        if product % TWO_64 >= TWO_64 % n {
            return product / TWO_64;
        }
    }
    unreachable!("some word is accepted")
}

fn splitmix(key: u128, count: u128) -> u128 {
    let times = |a: u128, b: u128| a.wrapping_mul(b) % TWO_64;
    let state = (key + times(count + 1, 0x9e37_79b9_7f4a_7c15)) % TWO_64;
    let z = times(state ^ (state >> 30), 0xbf58_476d_1ce4_e5b9);
    let z = times(z ^ (z >> 27), 0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// SipHash-2-4 as its paper states it, over bytes.
fn sip_2_4(seed: u64, tag: [u8; 8], epoch: u128, word: u128) -> u128 {
    let word_of = |bytes: &[u8]| bytes.iter().rev().fold(0, |x, &byte| x * 256 + u128::from(byte));
    let message = [&epoch.to_le_bytes()[..8], &word.to_le_bytes()[..8], &[0, 0, 0, 0, 0, 0, 0, 16]].concat();
    let (k0, k1) = (u128::from(seed), word_of(&tag));
    let mut v = [
        k0 ^ word_of(b"uespemos"),
        k1 ^ word_of(b"modnarod"),
        k0 ^ word_of(b"arenegyl"),
        k1 ^ word_of(b"setybdet"),
    ];
    for block in message.chunks(8) {
        v[3] ^= word_of(block);
        sip_rounds(&mut v, 2);
        v[0] ^= word_of(block);
    }
    v[2] ^= 0xff;
    sip_rounds(&mut v, 4);
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn sip_rounds(v: &mut [u128; 4], count: usize) {
    let rotate = |x: u128, by: u32| (x << by) % TWO_64 + (x >> (64 - by));
    for _ in 0..count {
        for (a, b, by) in [(0, 1, 13), (2, 3, 16), (2, 1, 17), (0, 3, 21)] {
            v[a] = (v[a] + v[b]) % TWO_64;
            v[b] = rotate(v[b], by) ^ v[a];
            if by == 13 || by == 17 {
                v[a] = rotate(v[a], 32);
            }
        }
    }
}

/// The weights as integers: `weight * 2^(95 - e)` by doubling and halving, where `2^e <= the largest < 2^(e + 1)`.
fn integers(weights: &[f64]) -> Vec<u128> {
    let mut largest = weights.iter().copied().fold(0.0, f64::max);
    let mut doublings = 95;
    while largest >= 2.0 {
        largest /= 2.0;
        doublings -= 1;
    }
    while largest < 1.0 {
        largest *= 2.0;
        doublings += 1;
    }
    weights
        .iter()
        .map(|&weight| {
            // Down or up to where it belongs, a power of two at a time: down as a float that stays above 1, and so exactly, up
            // as an integer and what is below 1.
            let (mut weight, mut left) = (weight, doublings);
            while left < 0 && weight >= 1.0 {
                weight /= 2.0;
                left += 1;
            }
            let mut integer = 0;
            for doubling in 0..=left {
                if doubling > 0 {
                    (weight, integer) = (weight * 2.0, integer * 2);
                }
                integer += bits(weight);
                weight %= 1.0;
            }
            integer
        })
        .collect()
}

/// The whole part of a number.
fn bits(number: f64) -> u128 {
    format!("{:.0}", number.trunc()).parse().unwrap()
}

/// The whole part of `number * fraction` and what is left of it, in units of 2^-127.
fn times(number: u128, fraction: u128) -> (u128, u128) {
    let one = 1 << 127;
    let (mut whole, mut rest) = (0, 0);
    for bit in (0..128).rev() {
        whole = whole * 2 + rest * 2 / one;
        rest = rest * 2 % one;
        if number >> bit & 1 == 1 {
            whole += (rest + fraction) / one;
            rest = (rest + fraction) % one;
        }
    }
    (whole, rest)
}

/// The whole part of `part / whole` in units of 2^-127, and what is left of `part`.
fn quotient(part: u128, whole: u128) -> (u128, u128) {
    let (mut quotient, mut rest) = (part / whole, part % whole);
    for _ in 0..127 {
        quotient = quotient * 2 + rest * 2 / whole;
        rest = rest * 2 % whole;
    }
    (quotient, rest)
}
