use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::*;

/// A pool with as many workers as the test wants, whatever the machine has.
fn pool(workers: usize) -> &'static Pool {
    Box::leak(Box::new(Pool::new(workers)))
}

/// How often each block was called.
struct Calls(Vec<AtomicUsize>);

impl Calls {
    fn of(blocks: usize) -> Self {
        Self((0..blocks).map(|_| AtomicUsize::new(0)).collect())
    }

    fn count(&self, block: usize) {
        self.0[block].fetch_add(1, Ordering::Relaxed);
    }

    fn are_one_each(&self) -> bool {
        self.0.iter().all(|calls| calls.load(Ordering::Relaxed) == 1)
    }
}

#[test]
fn no_block_one_block_and_one_thread_need_no_worker() {
    let caller = thread::current().id();
    for (blocks, threads) in [(0, 0), (1, 0), (9, 1)] {
        let calls = Calls::of(blocks);
        run(blocks, threads, &|block| {
            assert_eq!(thread::current().id(), caller);
            calls.count(block);
        })
        .unwrap();
        assert!(calls.are_one_each());
    }
}

#[test]
fn each_block_is_called_once_under_many_callers() {
    let pool = pool(3);
    thread::scope(|scope| {
        for caller in 0..16 {
            scope.spawn(move || {
                for round in 0..100 {
                    let blocks = (caller * 7 + round) % 23 + 1;
                    let calls = Calls::of(blocks);
                    pool.run(blocks, round % 5, &|block| calls.count(block)).unwrap();
                    assert!(calls.are_one_each());
                }
            });
        }
    });
}

#[test]
fn workers_take_part_under_their_names() {
    let names = Mutex::new(HashSet::new());
    let all = Barrier::new(4);
    pool(3)
        .run(4, 0, &|_| {
            all.wait();
            let name = thread::current().name().map(str::to_owned);
            lock(&names).insert(name.filter(|name| name.starts_with("zrecord-")));
        })
        .unwrap();
    let expected = ["zrecord-0", "zrecord-1", "zrecord-2"].map(|name| Some(name.to_owned()));
    assert_eq!(*lock(&names), expected.into_iter().chain([None]).collect());
}

#[test]
fn no_more_threads_than_asked_for_take_part() {
    let (pool, inside, most) = (pool(3), AtomicUsize::new(0), AtomicUsize::new(0));
    pool.run(40, 2, &|_| {
        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_micros(200));
        inside.fetch_sub(1, Ordering::SeqCst);
    })
    .unwrap();
    assert!(most.into_inner() <= 2);
}

#[test]
fn all_of_a_block_is_over_when_run_returns() {
    let pool = pool(3);
    for _ in 0..50 {
        let over = Calls::of(4);
        pool.run(4, 0, &|block| {
            thread::sleep(Duration::from_micros(50 * block as u64));
            over.count(block);
        })
        .unwrap();
        assert!(over.are_one_each());
    }
}

#[test]
fn a_panic_is_an_error_and_the_pool_goes_on() {
    let pool = pool(2);
    for bad in 0..6 {
        let error = pool.run(6, 0, &|block| assert!(block != bad, "block {block} is bad")).unwrap_err();
        assert_eq!(error.to_string(), format!("a block of the batch panicked: block {bad} is bad"));
        let calls = Calls::of(6);
        pool.run(6, 0, &|block| calls.count(block)).unwrap();
        assert!(calls.are_one_each());
    }
    assert_eq!(run(1, 0, &|_| panic!("alone")).unwrap_err().message, "alone");
    let error = pool.run(2, 0, &|_| std::panic::panic_any(7)).unwrap_err();
    assert_eq!(error.message, "it did not say why");
}

#[test]
fn a_run_inside_a_block_stays_on_its_thread() {
    let calls = Calls::of(4 * 5);
    pool(2)
        .run(4, 0, &|outer| {
            let thread = thread::current().id();
            run(5, 0, &|inner| {
                assert_eq!(thread::current().id(), thread);
                calls.count(outer * 5 + inner);
            })
            .unwrap();
        })
        .unwrap();
    assert!(calls.are_one_each());
    assert!(!INSIDE.get());
}

/// Children are forked while other threads are inside the pool, so that its lock is often held at that moment.
#[test]
fn a_forked_child_has_a_pool_of_its_own() {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    run(8, 0, &|_| hint::spin_loop()).unwrap();
                }
            });
        }
        let outcomes: Vec<_> = (0..10).map(|_| outcome_of_child(run_in_child)).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(outcomes.iter().all(|outcome| *outcome == Some(0)), "{outcomes:?}");
    });
}

fn run_in_child() -> bool {
    let calls = Calls::of(64);
    let pool = Pool::of_this_process();
    let ran = run(64, 0, &|block| calls.count(block)).is_ok();
    ran && pool.process == process::id() && calls.are_one_each()
}

/// The wait status of a child that exits with 0 if `work` returns true; `None` if it takes longer than ten seconds.
fn outcome_of_child(work: fn() -> bool) -> Option<i32> {
    // SAFETY: the child touches no lock that another thread of the parent may hold (the allocator's is taken care of
    // by the C library) and leaves without running anything else of this program.
    let child = unsafe {
        match libc::fork() {
            0 => libc::_exit(i32::from(!work())),
            child => child,
        }
    };
    assert!(child > 0, "fork failed");
    let end = Instant::now() + Duration::from_secs(10);
    let mut status = 0;
    while Instant::now() < end {
        // SAFETY: `child` is a child of this process that nobody else waits for, `status` outlives the call.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(1));
    }
    // SAFETY: as above; it is still running, so its id is not another's.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &raw mut status, 0);
    }
    None
}

#[test]
fn a_worker_that_has_just_worked_is_there_for_the_next_job_and_parks_after_a_while() {
    let pool = pool(1);
    let both_work = || {
        let meet = Barrier::new(2);
        pool.run(2, 0, &|_| {
            meet.wait();
        })
        .unwrap();
    };
    for _ in 0..200 {
        both_work();
    }
    let start = Instant::now();
    while lock(&pool.queue).parked == 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "the worker looks out for ever");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(lock(&pool.queue).watching, 0);
    both_work();
}

#[test]
fn whoever_wants_to_be_alone_is() {
    let me = thread::current().id();
    let on_me = || {
        let others = AtomicUsize::new(0);
        run(64, 0, &|_| {
            thread::sleep(Duration::from_micros(50));
            others.fetch_add(usize::from(thread::current().id() != me), Ordering::Relaxed);
        })
        .unwrap();
        others.into_inner() == 0
    };
    assert!(on_this_thread(|| on_this_thread(on_me) && on_me()));
    let panicked = catch_unwind(|| on_this_thread(|| panic!("in there")));
    assert!(panicked.is_err());
    assert!(!INSIDE.get(), "afterwards it is as before");
}
