//! Threads that share the blocks of one batch after another and wait in between by spinning, so that starting costs
//! next to nothing. They live for one request: an idle limit takes no core from the engines that it is beside.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// The batch in the upper half, its next block in the lower.
const BATCH: u64 = 1 << 32;

struct Board {
    ticket: AtomicU64,
    blocks: AtomicU64,
    done: AtomicU64,
    over: AtomicBool,
}

impl Board {
    /// Take blocks of whatever batch is on until none is left.
    fn take(&self, work: &(impl Fn(usize, usize) + Sync)) {
        loop {
            let blocks = self.blocks.load(Ordering::Acquire);
            if self.ticket.load(Ordering::Acquire) % BATCH >= blocks {
                return;
            }
            let ticket = self.ticket.fetch_add(1, Ordering::AcqRel);
            if ticket % BATCH >= blocks {
                return;
            }
            work((ticket / BATCH) as usize, (ticket % BATCH) as usize);
            self.done.fetch_add(1, Ordering::AcqRel);
        }
    }
}

pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work(batch, block)` for every block of every batch, a batch at a time; the seconds of each.
pub fn timed(threads: usize, batches: usize, blocks: usize, work: impl Fn(usize, usize) + Sync) -> Vec<f64> {
    // Tickets start beyond the last block: there is nothing to take before the first batch is on.
    let board = Board {
        ticket: AtomicU64::new(blocks as u64),
        blocks: AtomicU64::new(blocks as u64),
        done: AtomicU64::new(0),
        over: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| {
                while !board.over.load(Ordering::Acquire) {
                    board.take(&work);
                    spin_loop();
                }
            });
        }
        let seconds = (0..batches).map(|batch| one(&board, batch, blocks, &work)).collect();
        board.over.store(true, Ordering::Release);
        seconds
    })
}

/// All blocks of the batch before are done when this starts, so nobody holds a ticket of it.
fn one(board: &Board, batch: usize, blocks: usize, work: &(impl Fn(usize, usize) + Sync)) -> f64 {
    let started = Instant::now();
    board.done.store(0, Ordering::Release);
    board.ticket.store(batch as u64 * BATCH, Ordering::Release);
    board.take(work);
    while board.done.load(Ordering::Acquire) < blocks as u64 {
        spin_loop();
    }
    started.elapsed().as_secs_f64()
}
