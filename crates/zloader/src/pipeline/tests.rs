//! Pipelines whose steps take as long as a test wants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use zsampler::MAX_STEP;

use super::{Limits, Make, Pipeline, Taken};
use crate::draws::Drawn;
use crate::error::{Error, Result};
use crate::gather::Batch;
use crate::memory::Memory;
use crate::plan::Made;

type Work = dyn Fn(u64) -> Result<usize> + Send + Sync;

/// Batches of as many bytes as `work` says.
struct Fake {
    work: Box<Work>,
    expected: Option<u64>,
}

impl Make for Fake {
    fn make(&self, step: u64) -> Made {
        match (self.work)(step) {
            Ok(bytes) => Made {
                step,
                drawn: Drawn { indices: vec![step], sources: None },
                batches: Ok(vec![Batch::Rows(Memory::new(bytes).unwrap())]),
                seconds: 0.0,
            },
            Err(error) => Made::failed(step, Some(3), error),
        }
    }

    fn expected(&self) -> Option<u64> {
        self.expected
    }
}

fn start(
    workers: usize,
    ahead: usize,
    first_step: u64,
    work: impl Fn(u64) -> Result<usize> + Send + Sync + 'static,
) -> Pipeline {
    let limits = Limits { workers, ahead, bytes: u64::MAX };
    Pipeline::start_making(Box::new(Fake { work: Box::new(work), expected: Some(8) }), limits, first_step)
        .unwrap()
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(20))
}

fn made(taken: Result<Taken>) -> Box<Made> {
    match taken {
        Ok(Taken::Made(made)) => made,
        other => panic!("no step but {other:?}"),
    }
}

fn pause(microseconds: u64) {
    thread::sleep(Duration::from_micros(microseconds));
}

/// Wait until something holds.
fn until(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(20), "it never came to that");
        pause(100);
    }
}

/// A number of a step that looks random.
fn hash(step: u64) -> u64 {
    let mixed = (step ^ 0x9E37_79B9).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed ^ mixed >> 29
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn steps_come_as_if_made_one_after_the_other(
        workers in prop_oneof![Just(1_usize), Just(3), Just(16)],
        ahead in prop_oneof![Just(1_usize), Just(8)],
        first in 0..1000_u64,
        delay in 1..400_u64,
        in_order in any::<bool>(),
    ) {
        let twin = |step: u64| usize::try_from(hash(step) % 100).unwrap();
        let pipeline = start(workers, ahead, first, move |step| {
            pause(hash(step) % delay);
            if hash(step).is_multiple_of(7) { Err(Error::Internal(step.to_string())) } else { Ok(twin(step)) }
        });
        let mut seen = Vec::new();
        for step in first..first + 40 {
            let made = made(if in_order { pipeline.take(step, soon()) } else { pipeline.take_any(soon()) });
            prop_assert!(!in_order || made.step == step);
            seen.push(made.step);
            match made.batches {
                Ok(batches) => prop_assert_eq!(batches[0].bytes(), twin(made.step) as u64),
                Err(failure) => {
                    prop_assert_eq!(failure.error.to_string(), format!("internal error: {}", made.step));
                    prop_assert_eq!(hash(made.step) % 7, 0);
                }
            }
        }
        seen.sort_unstable();
        seen.dedup();
        prop_assert_eq!(seen.len(), 40);
        prop_assert!(seen[39] < first + 40 + ahead as u64);
    }
}

/// Counts what is begun or ready but not taken, and the most that ever was.
#[derive(Debug, Default)]
struct Load {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Load {
    fn more(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }
}

#[test]
fn never_more_ahead_than_asked_for() {
    for (workers, ahead) in [(1, 1), (4, 1), (3, 5), (16, 8)] {
        let load = Arc::new(Load::default());
        let begun = Arc::clone(&load);
        let pipeline = start(workers, ahead, 0, move |step| {
            begun.more();
            pause(hash(step) % 300);
            Ok(1)
        });
        for step in 0..200 {
            // Counted off before it is taken: what the pipeline begins then may be counted at once.
            until(|| pipeline.ready() > 0);
            load.now.fetch_sub(1, Ordering::SeqCst);
            assert_eq!(made(pipeline.take(step, soon())).step, step);
        }
        until(|| pipeline.ready() == ahead);
        pause(2000);
        assert_eq!(pipeline.ready(), ahead);
        let most = load.most.load(Ordering::SeqCst);
        assert!(most <= ahead, "{most} of {ahead}");
    }
}

#[test]
fn bytes_are_bounded() {
    for (expected, bytes, most) in
        [(Some(100), 350, 3), (None, 350, 3), (Some(100), 99, 1), (Some(100), 0, 1)]
    {
        let load = Arc::new(Load::default());
        let begun = Arc::clone(&load);
        let work = move |_| {
            begun.more();
            pause(200);
            Ok(100)
        };
        let limits = Limits { workers: 8, ahead: 8, bytes };
        let pipeline =
            Pipeline::start_making(Box::new(Fake { work: Box::new(work), expected }), limits, 0).unwrap();
        for step in 0..50 {
            until(|| pipeline.ready() > 0);
            load.now.fetch_sub(1, Ordering::SeqCst);
            assert_eq!(made(pipeline.take(step, soon())).bytes(), 100);
        }
        until(|| pipeline.ready() == most);
        pause(2000);
        assert_eq!(pipeline.ready(), most);
        assert_eq!(load.most.load(Ordering::SeqCst), most, "{expected:?} {bytes}");
    }
}

#[test]
fn the_first_step_has_all_processors() {
    let (begun, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counted, opened) = (Arc::clone(&begun), Arc::clone(&gate));
    let pipeline = start(4, 4, 0, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        until(|| opened.load(Ordering::SeqCst));
        Ok(8)
    });
    until(|| begun.load(Ordering::SeqCst) == 1);
    pause(2000);
    assert_eq!(begun.load(Ordering::SeqCst), 1);
    gate.store(true, Ordering::SeqCst);
    until(|| pipeline.ready() == 4);
}

#[test]
fn steps_that_nobody_wants_make_room() {
    let pipeline = start(2, 4, 0, |step| {
        pause(hash(step) % 200);
        Ok(8)
    });
    until(|| pipeline.ready() == 4);
    pipeline.forget(3);
    until(|| pipeline.ready() == 4);
    assert!(pipeline.take(2, soon()).is_err());
    assert_eq!(made(pipeline.take(3, soon())).step, 3);
    // Beyond what is begun, and among what is being made.
    for step in [1_000, 1_001, 1_005, 1_009] {
        pipeline.forget(step);
        assert_eq!(made(pipeline.take(step, soon())).step, step);
    }
    pipeline.forget(5);
    // Four are begun from there on, and any of them may be the first that is ready.
    assert!((1_010..1_014).contains(&made(pipeline.take_any(soon())).step));
    pipeline.forget(u64::MAX);
    assert!(pipeline.take(MAX_STEP, soon()).is_err());
}

#[test]
fn the_size_of_a_step_that_failed_tells_nothing() {
    let load = Arc::new(Load::default());
    let begun = Arc::clone(&load);
    let work = move |step| {
        begun.more();
        pause(200);
        if step < 3 { Err(Error::InvalidArgument("no such step".to_owned())) } else { Ok(100) }
    };
    let limits = Limits { workers: 8, ahead: 8, bytes: 250 };
    let pipeline =
        Pipeline::start_making(Box::new(Fake { work: Box::new(work), expected: None }), limits, 0).unwrap();
    for step in 0..20 {
        until(|| pipeline.ready() > 0);
        load.now.fetch_sub(1, Ordering::SeqCst);
        assert_eq!(made(pipeline.take(step, soon())).step, step);
    }
    assert!(load.most.load(Ordering::SeqCst) <= 3, "{load:?}");
}

#[test]
fn stop_returns_while_a_step_is_made() {
    let (entered, gate) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (inside, opened) = (Arc::clone(&entered), Arc::clone(&gate));
    let pipeline = start(1, 2, 0, move |_| {
        inside.store(true, Ordering::SeqCst);
        until(|| opened.load(Ordering::SeqCst));
        Ok(1)
    });
    until(|| entered.load(Ordering::SeqCst));
    thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|number| {
                let pipeline = &pipeline;
                scope.spawn(move || {
                    if number == 0 { pipeline.take_any(soon()) } else { pipeline.take(number - 1, soon()) }
                })
            })
            .collect();
        pause(5000);
        pipeline.stop();
        for taker in takers {
            assert!(matches!(taker.join().unwrap(), Ok(Taken::Stopped)));
        }
    });
    assert!(!pipeline.join(Instant::now() + Duration::from_millis(5)));
    pipeline.stop();
    assert!(matches!(pipeline.take(0, None), Ok(Taken::Stopped)));
    gate.store(true, Ordering::SeqCst);
    assert!(pipeline.join(Instant::now() + Duration::from_secs(20)));
    assert_eq!(pipeline.ready(), 0);
}

#[test]
fn errors_come_at_their_step() {
    let pipeline = start(4, 8, 0, |step| match step {
        5 => Err(Error::Internal("five".to_owned())),
        6 => panic!("six"),
        _ => {
            pause(1000);
            Ok(1)
        }
    });
    for step in 0..10 {
        let made = made(pipeline.take(step, soon()));
        match (step, made.batches) {
            (5, Err(failure)) => {
                assert_eq!(
                    (failure.stream, failure.error.to_string()),
                    (Some(3), "internal error: five".into())
                );
            }
            (6, Err(failure)) => {
                assert_eq!((failure.stream, failure.error.to_string()), (None, "internal error: six".into()));
            }
            (_, batches) => assert_eq!(batches.unwrap().len(), 1),
        }
    }
}

#[test]
fn nobody_waits_for_what_never_comes() {
    let pipeline = start(2, 2, 3, |_| Ok(1));
    assert!(pipeline.take(2, None).is_err(), "before the first");
    assert_eq!(made(pipeline.take(3, None)).step, 3);
    assert!(pipeline.take(3, None).is_err(), "taken before");
    until(|| pipeline.ready() == 2);
    assert!(matches!(pipeline.take(5 + 9, Some(Instant::now())), Ok(Taken::TimedOut)));
    // Farther than what is made ahead: the steps before stay where they are.
    assert_eq!(made(pipeline.take(14, soon())).step, 14);
    for step in 4..14 {
        assert_eq!(made(pipeline.take_any(soon())).step, step);
    }
}

#[test]
fn two_takers_of_one_step() {
    for _ in 0..50 {
        let pipeline = start(1, 1, 0, |_| {
            pause(200);
            Ok(1)
        });
        let got = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    if pipeline.take(0, soon()).is_ok() {
                        got.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(got.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn steps_end_with_an_error() {
    let plan = || {
        let sampler = zsampler::Sampler::new(10, 2, zsampler::Mode::Iid, 1).unwrap();
        let draws = crate::Draws::sampled(sampler, crate::Rank::ALONE, None).unwrap();
        crate::Plan::new(Arc::new(draws), Vec::new()).unwrap()
    };
    let limits = Limits { workers: 3, ahead: 8, bytes: 0 };
    for any in [false, true] {
        let pipeline = Pipeline::start(plan(), limits, MAX_STEP - 1).unwrap();
        let take = |step| if any { pipeline.take_any(soon()) } else { pipeline.take(step, soon()) };
        for step in [MAX_STEP - 1, MAX_STEP] {
            let made = made(take(step));
            assert_eq!((made.step, made.drawn.indices.len(), made.batches.unwrap().len()), (step, 2, 0));
        }
        let last = made(take(MAX_STEP + 1));
        assert!(matches!(last.batches.unwrap_err().error, Error::Order(_)));
        for step in [MAX_STEP + 1, MAX_STEP + 2, u64::MAX] {
            assert!(matches!(take(step), Err(Error::Order(_))));
        }
    }
    let pipeline = Pipeline::start(plan(), limits, u64::MAX).unwrap();
    assert!(pipeline.take(u64::MAX, soon()).is_err());
    assert!(pipeline.take_any(soon()).is_err());
}

#[test]
fn starts_takes_stops_and_drops_in_any_order() {
    for rounds in 1..=150_usize {
        let pipeline = start(1 + rounds % 5, 1 + rounds % 4, 0, move |step| {
            pause(hash(step) % 50);
            if step == 7 { panic!("seven") } else { Ok(70_000) }
        });
        thread::scope(|scope| {
            for taker in 0..3 {
                let pipeline = &pipeline;
                scope.spawn(move || {
                    for _ in 0..rounds % 40 {
                        match pipeline.take_any(soon()).unwrap() {
                            Taken::Made(_) => {}
                            Taken::Stopped => return,
                            Taken::TimedOut => panic!("a hang"),
                        }
                    }
                    if taker == 0 {
                        pipeline.stop();
                    }
                });
            }
            if rounds % 3 == 0 {
                pause(rounds as u64 % 700);
                pipeline.stop();
            }
        });
        if rounds % 2 == 0 {
            pipeline.stop();
            assert!(pipeline.join(Instant::now() + Duration::from_secs(20)));
        }
    }
}

#[test]
fn a_forked_child_finds_it_stopped() {
    let pipeline = start(2, 4, 0, |_| {
        pause(50);
        Ok(1)
    });
    for step in 0..200 {
        if step % 20 == 0 {
            // SAFETY: the child calls nothing that waits for a lock of a thread it doesn't have, which is what is tested, and ends at
            // once.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let stopped = matches!(pipeline.take(step, None), Ok(Taken::Stopped));
                pipeline.stop();
                let empty = pipeline.ready() == 0 && pipeline.join(Instant::now());
                drop(pipeline);
                // SAFETY: ends the child without running what belongs to the parent.
                unsafe { libc::_exit(i32::from(!(stopped && empty))) };
            }
            let mut status = -1;
            // SAFETY: waits for a child of this process, and writes one number.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((waited, status), (child, 0));
        }
        assert_eq!(made(pipeline.take(step, soon())).step, step);
    }
}
