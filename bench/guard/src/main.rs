//! Work whose instructions are counted: `guard CASE` does it once, under callgrind, which counts inside [`measured`] only.
//! `guard list` names the cases, `guard machine` what the processor that it sees can do. `guard.py` runs it.

use std::error::Error;
use std::hint::black_box;

use zrecord::{Codec, Options, Records, Store};
use zsampler::{Mode, Sampler};

const CASES: [&str; 9] = [
    "gather-2k",
    "gather-147k",
    "decode-12k",
    "sampler-sequential-256",
    "sampler-sequential-8192",
    "sampler-iid-256",
    "sampler-iid-8192",
    "sampler-cyclic-256",
    "sampler-cyclic-8192",
];

type Outcome = Result<(), Box<dyn Error>>;

#[expect(clippy::print_stdout, reason = "what the script reads")]
fn main() -> Outcome {
    let case = std::env::args().nth(1).unwrap_or_default();
    match case.as_str() {
        "list" => println!("{}", CASES.join("\n")),
        "machine" => println!("{}", machine()),
        "gather-2k" => gather(Codec::Raw, 2048, 512, 128)?,
        "gather-147k" => gather(Codec::Raw, 3 * 224 * 224, 32, 16)?,
        "decode-12k" => gather(Codec::Zstd, 3 * 64 * 64, 128, 64)?,
        _ => sampler(&case)?,
    }
    Ok(())
}

/// The architecture, and the features that choose between ways of doing the same.
fn machine() -> String {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("pclmulqdq") {
        return "x86_64+avx2".to_owned();
    }
    std::env::consts::ARCH.to_owned()
}

/// What is counted.
#[inline(never)]
fn measured(work: &mut dyn FnMut() -> Outcome) -> Outcome {
    work()
}

/// A batch of records in no order, after another one that pays for what is done once.
fn gather(codec: Codec, size: usize, count: usize, batch: usize) -> Outcome {
    let home = tempfile::tempdir()?;
    let store = Store::create(&home.path().join("store"), Options::new().codec(codec))?;
    // Bytes that compress about as well as pictures.
    let mut state = 1_u64;
    let bytes: Vec<u8> = (0..size * count)
        .map(|i| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((i / 7 % 64) as u64 ^ (state >> 60 & 7)).to_le_bytes()[0]
        })
        .collect();
    store.append(&Records::rows(&bytes, count)?, None)?;
    store.close()?;

    let store = Store::open(&home.path().join("store"), Options::new())?;
    let mut out = vec![0; size * batch];
    let records =
        |offset: usize| -> Vec<u64> { (0..batch).map(|i| ((i * 29 + offset) % count) as u64).collect() };
    store.gather_rows(&records(0), &mut out)?;
    let counted = records(1);
    measured(&mut || Ok(store.gather_rows(black_box(&counted), &mut out)?))?;
    for (record, found) in counted.iter().zip(out.chunks(size)) {
        if bytes.chunks(size).nth(usize::try_from(*record)?) != Some(found) {
            return Err(format!("record {record} came back as another one").into());
        }
    }
    Ok(())
}

/// A batch of a million records.
fn sampler(case: &str) -> Outcome {
    let known = || {
        let (mode, size) = case.strip_prefix("sampler-")?.split_once('-')?;
        let mode = match mode {
            "sequential" => Mode::Sequential,
            "iid" => Mode::Iid,
            "cyclic" => Mode::Cyclic,
            _ => return None,
        };
        Some((mode, size.parse().ok()?))
    };
    let (mode, size) = known().ok_or_else(|| format!("no case {case:?}"))?;
    let sampler = Sampler::new(1_000_000, size, mode, 42)?;
    let mut batch = sampler.batch_at(0);
    measured(&mut || Ok(sampler.fill(black_box(1), &mut batch)?))?;
    if batch != sampler.batch_at(1) {
        return Err("the batch is not that of the step".into());
    }
    Ok(())
}
