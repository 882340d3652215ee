//! A damaged store, opened and used in every way: it may be refused, it may say what is wrong, and it never gives a record that it
//! didn't hold.

use std::sync::Arc;

use super::bases::BASES;
use super::damage::{Seal, damage, dictionary_is_unstated};
use super::input::Input;
use crate::error::{Error, Result};
use crate::options::{Options, Verify};
use crate::repair::{Repair, repair_in};
use crate::storage::Directory;
use crate::storage::memory::MemoryDirectory;
use crate::tests::twin::{DICT, Row, plain, record, shaped};
use crate::verify::verify_in;
use crate::{Records, Store};

/// Records of one store that are looked at.
const RECORDS: u64 = 48;
/// The longest record that the harness makes room for: a damaged entry may state 2 GiB.
const LONGEST: u32 = 1 << 20;

/// Damage a store as `data` says, then open and use it.
pub fn open(data: &[u8]) {
    let mut input = Input::new(data);
    let base = &BASES[input.below(BASES.len())];
    let seal = Seal::choose(&mut input);
    let mut files = base.files.clone();
    damage(&mut files, seal, &mut input);
    // Where hostile values got past the checksums, anything may be read.
    let claims = !seal.any() && !dictionary_is_unstated(&files, &base.files);
    let known = claims.then(|| base.rows.clone());
    let dir = MemoryDirectory::holding(&files);
    read_only(&dir, Verify::Never, None);
    read_only(&dir, Verify::Always, known.as_deref());
    let mut user = User { dir, known, appended: 0 };
    user.write(&mut input);
}

/// The outcome, unless it is a fault of the library itself.
fn fine<T>(outcome: Result<T>) -> Option<T> {
    outcome.inspect_err(|e| assert!(!matches!(e, Error::Internal(_)), "{e}")).ok()
}

fn options() -> Options {
    Options::new().chunk_limit(100).segment_bits(2)
}

fn read_only(dir: &MemoryDirectory, verify: Verify, known: Option<&[Row]>) {
    let options = options().read_only(true).verify(verify);
    if let Some(store) = fine(Store::open_in(Arc::new(dir.clone()), options)) {
        read_all(&store, known);
        let report = fine(verify_in(&(Arc::new(dir.clone()) as _), &super::open::options(), &mut |_| true));
        assert!(report.is_some_and(|report| report.records <= report.sound + report.problem_count));
        assert!(fine(store.append(&Records::list(vec![b"more"]), None)).is_none());
    }
}

/// Everything that can be asked. `known` are the records that may come, where the store knows its sums.
fn read_all(store: &Store, known: Option<&[Row]>) {
    let Some(length) = fine(store.len()) else { return };
    let known = known.filter(|_| store.sums_known().unwrap());
    fine(store.stats());
    let first: Vec<u64> = (0..length.min(RECORDS)).collect();
    let last = length.checked_sub(1);
    for index in first.iter().copied().chain(last) {
        read_one(store, index, known);
    }
    if let Some(lengths) = fine(store.lengths(&first))
        && lengths.iter().all(|&length| length <= LONGEST / 64)
    {
        fine(store.shapes(&first));
        let starts = fine(store.packed_offsets(&first)).unwrap();
        let mut bytes = vec![0; usize::try_from(*starts.last().unwrap()).unwrap()];
        fine(store.gather(&first, &mut bytes, &starts[..first.len()]));
    }
    let beyond = store.lengths(&[length]);
    assert!(matches!(beyond, Err(Error::IndexOutOfRange { .. })), "{beyond:?}");
}

fn read_one(store: &Store, index: u64, known: Option<&[Row]>) {
    let shape = fine(store.shapes(&[index]));
    let Some(length) = fine(store.lengths(&[index])) else { return };
    // A place of another length: refused, and the record is looked at to say why.
    assert!(length == [3] || fine(store.gather_rows(&[index], &mut [0; 3])).is_none());
    if length[0] > LONGEST {
        return;
    }
    let mut bytes = vec![0; length[0] as usize];
    if fine(store.gather(&[index], &mut bytes, &[0])).is_some()
        && let Some(known) = known
    {
        let row = (bytes, shape.unwrap()[0]);
        assert!(known.contains(&row), "record {index} was never there: {row:?}");
    }
}

struct User {
    dir: MemoryDirectory,
    /// Every record that the store may give, if that is known.
    known: Option<Vec<Row>>,
    appended: u64,
}

impl User {
    /// Open for writing, and do up to eight things.
    fn write(&mut self, input: &mut Input<'_>) {
        let Some(mut store) = self.open() else { return };
        read_all(&store, self.known.as_deref());
        for step in 0..8 {
            if step > 0 && input.is_empty() {
                break;
            }
            match input.u8() % 11 {
                0 | 1 => self.append(&store, input.u8()),
                2 | 3 => self.delete(&store, input),
                4 => drop(fine(store.compact())),
                5 => drop(fine(store.sync())),
                6 => drop(fine(store.refresh())),
                7 => drop(fine(store.install_dict(&DICT))),
                8 => {
                    fine(store.hold("fuzzing"));
                    fine(store.release());
                }
                9 => {
                    fine(store.close());
                    drop(store);
                    self.repair(input.flag());
                    let Some(again) = self.open() else { return };
                    store = again;
                }
                _ => {
                    fine(store.close());
                    drop(store);
                    let Some(again) = self.open() else { return };
                    store = again;
                }
            }
            read_all(&store, self.known.as_deref());
        }
        drop(store);
        if let Some(store) = self.open() {
            read_all(&store, self.known.as_deref());
        }
    }

    /// Whatever a repair leaves is sound, if it is asked to drop what is not, and `verify` and reading agree on it.
    fn repair(&mut self, rebuild_sums: bool) {
        let how = Repair { drop_damaged: true, rebuild_sums };
        let dir: Arc<dyn Directory> = Arc::new(self.dir.clone());
        let Some(done) = fine(repair_in(&dir, &options(), how, &mut |_| true)) else { return };
        if done.sums_rebuilt {
            // Bytes were taken as they are.
            self.known = None;
        }
        let report = verify_in(&dir, &options(), &mut |_| true).unwrap();
        if report.problems.iter().any(|problem| matches!(problem, Error::MissingDictionary { .. })) {
            // Nobody can make that anew.
            return;
        }
        assert!(report.is_sound() && report.sums_known && !report.unfinished, "{report:?}");
        let store = Store::open_in(dir, options().read_only(true)).unwrap();
        for record in 0..report.records.min(RECORDS) {
            let mut bytes = vec![0; store.lengths(&[record]).unwrap()[0] as usize];
            store.gather_rows(&[record], &mut bytes).unwrap();
        }
    }

    fn open(&self) -> Option<Store> {
        fine(Store::open_in(Arc::new(self.dir.clone()), options()))
    }

    fn append(&mut self, store: &Store, what: u8) {
        self.appended += 1;
        let bytes = record(1000 + self.appended, usize::from(what) / 2);
        let (bytes, shape) = if what & 1 == 1 { shaped(bytes, 3) } else { plain(bytes) };
        let shapes = [shape];
        let given = (!shape.is_plain()).then_some(shapes.as_slice());
        fine(store.append(&Records::list(vec![&bytes]), given));
        self.known.iter_mut().for_each(|known| known.push((bytes.clone(), shape)));
    }

    fn delete(&self, store: &Store, input: &mut Input<'_>) {
        let length = store.len().unwrap_or(0);
        let idxs: Vec<u64> = (0..input.below(12)).map(|_| input.u8().into()).collect();
        let from_the_end = input.flag();
        let idx = |idx: u64| if from_the_end { length.saturating_sub(1 + idx) } else { idx };
        fine(store.delete(&idxs.into_iter().map(idx).filter(|&idx| idx < length).collect::<Vec<_>>()));
    }
}
