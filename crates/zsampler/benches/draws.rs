//! Time of weighted draws and of mixtures: `cargo bench -p zsampler --bench draws`. Without `--bench` each case runs a few
//! times on a small table and only its answer is checked.

use std::hint::black_box;
use std::time::{Duration, Instant};

use zsampler::{Error, Mixture, Mode, Weighted};

const BATCH: usize = 8192;

fn main() -> Result<(), Error> {
    let measure = std::env::args().any(|argument| argument == "--bench");
    for bits in if measure { &[10, 16, 20, 25][..] } else { &[10] } {
        // A long tail, as of counts of classes, whose ranks lie in any order: rank r comes in proportion to 1 / r.
        let ranks = (0..1_u32 << bits).map(|item| (item.reverse_bits() >> (32 - bits)) + 1);
        let weights: Vec<f64> = ranks.map(|rank| 1.0 / f64::from(rank)).collect();
        let start = Instant::now();
        let weighted = Weighted::new(&weights, BATCH as u64, 42)?;
        let made = start.elapsed();
        let mut out = [0; BATCH];
        weighted.fill_range(3, 0, &mut out)?;
        assert_eq!(out, *weighted.batch_at(3), "2^{bits} weights");
        if measure {
            let batch = best_of_rounds(|step| weighted.fill_range(step, 0, black_box(&mut out)))?;
            report(&format!("weighted, 2^{bits} weights (table made in {:.3} s)", made.as_secs_f64()), batch);
        }
    }
    for components in [1_u32, 3, 100, 10_000] {
        for mode in [Mode::Sequential, Mode::Iid, Mode::Cyclic] {
            let lengths: Vec<u64> =
                (0..components).map(|component| 1_000_000 / u64::from(component + 1) + 1000).collect();
            let weights = (0..components).map(|component| 1.0 / f64::from(component + 1)).collect();
            let mixture = Mixture::new(&lengths, BATCH as u64, mode, 42, &[(0, weights)], false)?;
            let (mut sources, mut indices) = ([0; BATCH], [0; BATCH]);
            mixture.fill_range(3, 0, &mut sources, &mut indices)?;
            assert_eq!(
                (sources.to_vec(), indices.to_vec()),
                mixture.batch_at(3),
                "{components} components, {mode:?}"
            );
            if measure {
                let batch = best_of_rounds(|step| {
                    mixture.fill_range(step, 0, black_box(&mut sources), black_box(&mut indices))
                })?;
                report(&format!("mixture, {components} components, {mode:?}"), batch);
            }
        }
    }
    Ok(())
}

/// The best mean time of a batch over rounds so short that some of them are not interrupted.
fn best_of_rounds(mut fill: impl FnMut(u64) -> Result<(), Error>) -> Result<Duration, Error> {
    const BATCHES: u64 = 8;
    let mut best = Duration::MAX;
    for round in 0..100 {
        let start = Instant::now();
        for step in 0..BATCHES {
            fill(round * BATCHES + step)?;
        }
        best = best.min(start.elapsed().div_f64(BATCHES as f64));
    }
    Ok(best)
}

#[expect(clippy::print_stdout, reason = "a benchmark reports on its standard output")]
fn report(what: &str, batch: Duration) {
    let rate = BATCH as f64 / batch.as_secs_f64() / 1e6;
    println!("{what:<58} {:>8.1} us a batch of {BATCH}, {rate:>5.0} M/s", batch.as_secs_f64() * 1e6);
}
