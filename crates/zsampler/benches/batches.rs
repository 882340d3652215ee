//! Time of one batch, by mode and batch size: `cargo bench -p zsampler`. Without `--bench` (as under
//! `cargo test --benches`) each case runs a few times and only its answer is checked.

use std::hint::black_box;
use std::time::{Duration, Instant};

use zsampler::{Error, Mode, Sampler};

const LENGTH: u64 = 1_000_000;

fn main() -> Result<(), Error> {
    let measure = std::env::args().any(|argument| argument == "--bench");
    for mode in [Mode::Sequential, Mode::Iid, Mode::Cyclic] {
        for (batch_size, out) in [(256, &mut [0; 256][..]), (1024, &mut [0; 1024]), (8192, &mut [0; 8192])] {
            let sampler = Sampler::new(LENGTH, batch_size, mode, 42)?;
            sampler.fill(3, out)?;
            assert_eq!(out, sampler.batch_at(3), "{mode:?} of {batch_size}");
            if measure {
                report(mode, batch_size, best_of_rounds(&sampler, out)?);
            }
        }
    }
    Ok(())
}

/// The best mean time of a batch over rounds so short that some of them are not interrupted.
fn best_of_rounds(sampler: &Sampler, out: &mut [u64]) -> Result<Duration, Error> {
    let batches = 100_000 / (sampler.batch_size() + 256);
    let mut best = Duration::MAX;
    for round in 0..400 {
        let start = Instant::now();
        for step in 0..batches {
            sampler.fill(round * batches + step, black_box(&mut *out))?;
        }
        best = best.min(start.elapsed().div_f64(batches as f64));
    }
    Ok(best)
}

#[expect(clippy::print_stdout, reason = "a benchmark reports on its standard output")]
fn report(mode: Mode, batch_size: u64, batch: Duration) {
    println!("{:<10} {batch_size:>5}: {:>7.2} us", format!("{mode:?}"), batch.as_secs_f64() * 1e6);
}
