//! Operations on a store that is cut again and again, by a kill or by a loss of power, beside the naive twin.

use std::sync::Arc;

use super::input::Input;
use crate::Store;
use crate::codec::Codec;
use crate::error::Error;
use crate::options::Options;
use crate::storage::Directory;
use crate::storage::faulty::{FaultyDirectory, Fuse};
use crate::storage::memory::MemoryDirectory;
use crate::tests::twin::{
    Op, Row, Twin, apply, check_reads_after_a_fault, check_usable, plain, read, record, shaped, small,
};

/// Operations of one input, and records that a store grows to: more make an input slow, not deep.
const OPS: usize = 40;
const RECORDS: usize = 120;

/// What is known of a store.
struct State {
    dir: MemoryDirectory,
    options: Options,
    /// What it holds.
    content: Twin,
    /// What a loss of power can't take.
    durable: Twin,
    /// What it may hold instead once power is lost: what kills left, and no writer has settled since.
    others: Vec<Twin>,
    ops: usize,
    seed: u64,
}

/// Run the operations and cuts that `data` describes.
pub fn ops(data: &[u8]) {
    let mut input = Input::new(data);
    let codec = Codec::ALL[input.below(Codec::ALL.len())];
    let options = small(codec);
    let dir = MemoryDirectory::new();
    Store::create_in(Arc::new(dir.clone()), options.clone()).unwrap();
    dir.sync().unwrap();
    let (content, durable) = (Twin::default(), Twin::default());
    let mut state = State { dir, options, content, durable, others: Vec::new(), ops: 0, seed: 0 };
    while !input.is_empty() && state.ops < OPS {
        state.round(&mut input);
    }
}

impl State {
    /// A handle from its opening to its cut, or to its close.
    fn round(&mut self, input: &mut Input<'_>) {
        let changes = u64::from(input.u8()) * if input.flag() { 4 } else { 1 };
        let (torn, power) = (input.flag(), input.flag());
        let fuse = Fuse::after(changes, torn);
        let faulty: Arc<dyn Directory> = Arc::new(FaultyDirectory::new(self.dir.clone(), fuse.clone()));
        let mut store = match Store::open_in(faulty.clone(), self.options.clone()) {
            Ok(store) => Some(store),
            Err(e) => {
                assert!(fuse.blown(), "opening failed without a fault: {e}");
                return self.cut(input, power, self.content.clone());
            }
        };
        if store.as_ref().is_some_and(Store::has_written) {
            self.settled(self.content.clone());
        }
        for _ in 0..OPS {
            let Some(op) = self.op(input) else { break };
            self.ops += 1;
            let after = self.content.after(&op);
            let wrote_before = store.as_ref().is_some_and(Store::has_written);
            let outcome = apply(&faulty, &self.options, &mut store, &op);
            let wrote = store.as_ref().is_some_and(Store::has_written);
            if wrote && !wrote_before {
                // Becoming the writer makes durable what was there.
                self.settled(self.content.clone());
            }
            match outcome {
                Ok(()) => self.done(&op, wrote || wrote_before, after),
                Err(Error::MissingDictionary { .. }) => {
                    assert!(!store.as_ref().unwrap().has_dict().unwrap() && matches!(op, Op::Append(_)));
                }
                Err(e) => {
                    assert!(fuse.blown(), "{op:?} failed without a fault: {e}");
                    check_reads_after_a_fault(store.take(), &self.content, &after);
                    return self.cut(input, power, after);
                }
            }
        }
        let Some(store) = store else { return };
        assert_eq!(read(&store).unwrap(), self.content);
        let wrote = store.has_written();
        match store.close() {
            Ok(()) if wrote => self.settled(self.content.clone()),
            Ok(()) => {}
            Err(e) => {
                assert!(fuse.blown(), "closing failed without a fault: {e}");
                drop(store);
                self.cut(input, power, self.content.clone());
            }
        }
    }

    fn settled(&mut self, durable: Twin) {
        self.durable = durable;
        self.others.clear();
    }

    fn done(&mut self, op: &Op, wrote: bool, after: Twin) {
        // A dictionary that is installed already, or that the codec doesn't take, is nothing to do.
        if wrote && !matches!(op, Op::Append(_) | Op::InstallDict) {
            self.settled(after.clone());
        }
        self.content = after;
    }

    /// The handle is gone in the middle of what would have led to `after`: the store holds what it may, and can be used.
    fn cut(&mut self, input: &mut Input<'_>, power: bool, after: Twin) {
        if power {
            self.dir = self.dir.power_cut(&mut |n| input.below(n));
        }
        let copy = self.dir.copy();
        let store = Store::open_in(Arc::new(copy.clone()), self.options.clone()).unwrap();
        let found = read(&store).unwrap();
        let before = std::mem::take(&mut self.content);
        if power {
            let wholes: Vec<&Twin> = [&before, &after].into_iter().chain(&self.others).collect();
            let fine = wholes.iter().any(|&whole| found == *whole || found.is_prefix(whole, &self.durable));
            assert!(fine, "{found:?}\n{:?}\n{wholes:?}", self.durable);
            self.settled(found.clone());
        } else {
            assert!(found == before || found == after, "{found:?}\n{before:?}\n{after:?}");
            self.others.extend([before, after]);
        }
        check_usable(&copy, &self.options, store, &found);
        self.content = found;
    }

    /// The next operation; `None` where the input ends, or wants the handle closed.
    fn op(&mut self, input: &mut Input<'_>) -> Option<Op> {
        if input.is_empty() || self.ops >= OPS {
            return None;
        }
        Some(match input.below(9) {
            0..=2 if self.content.0.len() < RECORDS => {
                Op::Append((0..=input.below(8)).map(|_| self.row(input)).collect())
            }
            0..=3 => Op::Delete((0..input.below(24)).map(|_| input.u8().into()).collect()),
            4 => Op::Compact,
            5 => Op::Sync,
            6 => Op::Reopen,
            7 => Op::InstallDict,
            _ => return None,
        })
    }

    fn row(&mut self, input: &mut Input<'_>) -> Row {
        self.seed += 1;
        let (length, columns) = (input.below(160), u32::from(input.u8() % 6));
        let bytes = record(self.seed, length);
        if columns < 3 { plain(bytes) } else { shaped(bytes, columns) }
    }
}
