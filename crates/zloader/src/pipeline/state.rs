//! Which steps are begun and ready, and whether one more may be begun. Plain bookkeeping: no locks, no threads.

use std::collections::{BTreeMap, BTreeSet};

use zsampler::MAX_STEP;

use super::Limits;
use crate::error::{Error, Result};
use crate::plan::Made;

/// What a taker waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Step(u64),
    Any,
}

/// What is begun and ready. A step is one of: not begun (`next` and above), begun, ready, gone.
#[derive(Debug)]
pub(super) struct State {
    ahead: usize,
    bytes: u64,
    /// The first step that isn't begun. Behind [`MAX_STEP`] comes one more, whose result is the error that ends the steps.
    next: u64,
    begun: BTreeSet<u64>,
    /// Steps below are wanted by nobody.
    floor: u64,
    ready: BTreeMap<u64, Made>,
    ready_bytes: u64,
    /// Bytes of a step, as far as is known.
    largest: Option<u64>,
    /// Whether a step was made, for good or bad.
    made_one: bool,
    /// What takers wait for, one entry each.
    pub(super) waiting: Vec<Wanted>,
    pub(super) stopped: bool,
    /// Threads that have not ended.
    pub(super) alive: usize,
}

impl State {
    pub(super) fn new(limits: Limits, first_step: u64, expected: Option<u64>) -> Self {
        Self {
            ahead: limits.ahead.max(1),
            bytes: limits.bytes,
            next: first_step,
            begun: BTreeSet::new(),
            floor: first_step,
            ready: BTreeMap::new(),
            ready_bytes: 0,
            largest: expected,
            made_one: false,
            waiting: Vec::new(),
            stopped: false,
            alive: 0,
        }
    }

    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    pub(super) fn begun(&self) -> usize {
        self.begun.len()
    }

    /// Whether the next step may be begun.
    ///
    /// Until one was made, it is made alone: somebody waits for it, and all processors are its own. So too while the size of a step isn't
    /// known.
    pub(super) fn may_begin(&self) -> bool {
        if self.stopped || self.has_ended() {
            return false;
        }
        if self.begun.is_empty() && (self.ready.is_empty() || self.is_stuck()) {
            return true;
        }
        let Some(largest) = self.largest.filter(|_| self.made_one) else { return false };
        let taken = largest.saturating_mul(self.begun.len() as u64 + 1).saturating_add(self.ready_bytes);
        self.begun.len() + self.ready.len() < self.ahead && taken <= self.bytes
    }

    fn has_ended(&self) -> bool {
        self.next > MAX_STEP + 1
    }

    /// Whether everybody waits for steps that are not begun, while what is ready is left lying: the limits then give way.
    fn is_stuck(&self) -> bool {
        let is_ready = |wanted: &Wanted| match wanted {
            Wanted::Step(step) => self.ready.contains_key(step),
            Wanted::Any => true,
        };
        !self.waiting.is_empty() && !self.waiting.iter().any(is_ready)
    }

    pub(super) fn begin(&mut self) -> u64 {
        let step = self.next;
        // `has_ended` comes long before the end of the numbers.
        self.next += 1;
        self.begun.insert(step);
        step
    }

    /// Enter what came of a step; it is returned if nobody wants it any more.
    pub(super) fn finish(&mut self, made: Made) -> Option<Made> {
        self.begun.remove(&made.step);
        self.made_one = true;
        let bytes = made.bytes();
        if made.batches.is_ok() {
            self.largest = Some(self.largest.unwrap_or(0).max(bytes));
        }
        if self.stopped || made.step < self.floor {
            return Some(made);
        }
        self.ready_bytes = self.ready_bytes.saturating_add(bytes);
        self.ready.insert(made.step, made)
    }

    /// Take a step out if it is ready.
    ///
    /// # Errors
    /// For one that never will be.
    pub(super) fn take(&mut self, wanted: Wanted) -> Result<Option<Made>> {
        let step = match wanted {
            Wanted::Step(step) => step,
            Wanted::Any => match self.ready.first_key_value() {
                Some((&step, _)) => step,
                None if self.has_ended() && self.begun.is_empty() => self.next,
                None => return Ok(None),
            },
        };
        if let Some(made) = self.ready.remove(&step) {
            self.ready_bytes = self.ready_bytes.saturating_sub(made.bytes());
            return Ok(Some(made));
        }
        if step > MAX_STEP && (step > MAX_STEP + 1 || self.has_ended() && !self.begun.contains(&step)) {
            return Err(zsampler::Error::StepTooLarge { step }.into());
        }
        if step < self.next && !self.begun.contains(&step) {
            let why = format!("step {step} was taken before, or comes before the first");
            return Err(Error::InvalidArgument(why));
        }
        Ok(None)
    }

    /// Steps below are wanted by nobody any more: none of them is begun from here on, and those that are ready are returned.
    pub(super) fn forget(&mut self, below: u64) -> BTreeMap<u64, Made> {
        self.floor = self.floor.max(below);
        self.next = self.next.max(below.min(MAX_STEP + 1));
        let kept = self.ready.split_off(&self.floor);
        let forgotten = std::mem::replace(&mut self.ready, kept);
        let bytes = forgotten.values().fold(0, |bytes: u64, made| bytes.saturating_add(made.bytes()));
        self.ready_bytes = self.ready_bytes.saturating_sub(bytes);
        forgotten
    }

    pub(super) fn no_longer_waits(&mut self, wanted: Wanted) {
        if let Some(at) = self.waiting.iter().position(|&entry| entry == wanted) {
            self.waiting.swap_remove(at);
        }
    }

    /// Take out all that is ready.
    pub(super) fn clear(&mut self) -> BTreeMap<u64, Made> {
        self.ready_bytes = 0;
        std::mem::take(&mut self.ready)
    }
}
