//! Every implementation against crc-fast, which is the twin.

use super::*;

type Implementation = (&'static str, fn(&[u8], &[u8]) -> u32);

fn twin(first: &[u8], second: &[u8]) -> u32 {
    low32(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &[first, second].concat()))
}

/// Copies to a place with bytes around it that must stay, whatever its alignment.
fn by_copying(copy: impl Fn(&[u8], &mut [u8]) -> u32, from: &[u8], shift: usize) -> u32 {
    let mut around = vec![0xA5; shift + from.len() + 16];
    let sum = copy(from, &mut around[shift..][..from.len()]);
    assert!(around[..shift].iter().chain(&around[shift + from.len()..]).all(|&byte| byte == 0xA5));
    assert_eq!(around[shift..][..from.len()], *from, "{} bytes at {shift}", from.len());
    sum
}

fn copied(first: &[u8], second: &[u8], stores: Stores) -> u32 {
    let copy = |from: &[u8], to: &mut [u8]| {
        let sum = copy_crc32c_pair(from, to, second, stores);
        crate::copy::finish(stores);
        sum
    };
    by_copying(copy, first, first.len() % 17)
}

fn implementations() -> Vec<Implementation> {
    #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "no kernel"))]
    let mut all: Vec<Implementation> = vec![
        ("chosen", crc32c_pair),
        ("chosen, copying", |first, second| copied(first, second, Stores::Cached)),
        ("chosen, streaming", |first, second| copied(first, second, Stores::Streaming)),
        ("portable", portable),
    ];
    #[cfg(target_arch = "x86_64")]
    if x86::Kernel::new().is_some() {
        all.push(("kernel", |first, second| x86::Kernel::new().unwrap().sum(first, second)));
        all.push(("kernel, copying", |first, second| {
            let kernel = x86::Kernel::new().unwrap();
            by_copying(
                |from, to| kernel.copy_and_sum(from, to, second, Stores::Cached),
                first,
                first.len() % 19,
            )
        }));
    }
    all
}

/// Bytes in which no stretch is like another.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[7]
    };
    (0..length).map(|_| next()).collect()
}

fn same(first: &[u8], second: &[u8]) {
    let expected = twin(first, second);
    for (name, implementation) in implementations() {
        assert_eq!(implementation(first, second), expected, "{name}: {} + {}", first.len(), second.len());
    }
}

#[test]
fn the_check_value_of_crc32c() {
    for (name, implementation) in implementations() {
        assert_eq!(implementation(b"123456789", b""), 0xE306_9283, "{name}");
        assert_eq!(implementation(b"1234", b"56789"), 0xE306_9283, "{name}");
        assert_eq!(implementation(b"", b""), 0, "{name}");
    }
    assert_eq!(crc32c(b"123456789"), 0xE306_9283);
}

#[test]
fn every_short_length() {
    let bytes = noise(1100);
    for length in 0..=1024 {
        same(&bytes[length % 64..][..length], &bytes[..8]);
        same(&bytes[..length % 40], &bytes[..length / 8]);
    }
}

#[test]
fn around_every_block() {
    let bytes = noise(64 * 128 + 64);
    for blocks in 1..=64 {
        for length in (blocks * 128 - 17)..=(blocks * 128 + 17) {
            same(&bytes[blocks % 3..][..length], &bytes[..8]);
        }
    }
}

#[test]
fn long_inputs_at_every_alignment() {
    let bytes = noise((1 << 20) + 64);
    let lengths = noise(64 * 2);
    for (alignment, length) in lengths.as_chunks::<2>().0.iter().enumerate() {
        // Of all magnitudes up to 1 MiB, the longest at some alignment.
        let length = (usize::from(u16::from_le_bytes(*length)) << 4) >> (alignment % 7);
        same(&bytes[alignment..][..length], &bytes[..8]);
    }
    same(&bytes[63..][..1 << 20], b"");
}

#[test]
fn copying_at_every_distance() {
    for stores in [Stores::Cached, Stores::Streaming] {
        crate::copy::tests::at_every_distance(|from, to| {
            let sum = copy_crc32c_pair(from, to, b"after", stores);
            crate::copy::finish(stores);
            assert_eq!(sum, twin(from, b"after"), "{} bytes, {stores:?}", from.len());
        });
    }
}

#[test]
fn every_bit_matters() {
    let bytes = noise(777);
    for (name, implementation) in implementations() {
        let sum = implementation(&bytes, b"");
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1 << (at % 8);
            assert_ne!(implementation(&other, b""), sum, "{name}: byte {at}");
        }
    }
}

#[test]
#[should_panic(expected = "copy_from_slice")]
fn a_place_of_another_length_is_refused() {
    copy_crc32c_pair(&[1; 300], &mut [0; 299], &[], Stores::Cached);
}
