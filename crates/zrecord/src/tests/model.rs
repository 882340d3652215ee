//! Random operations, compared with the twin after each.

use std::path::Path;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;

use super::twin::{Op, Row, Twin, apply, check_files, plain, read, record, shaped};
use crate::Store;
use crate::codec::Codec;
use crate::options::Options;
use crate::storage::memory::MemoryDirectory;
use crate::storage::{Directory, RealDirectory};

fn row() -> impl Strategy<Value = Row> {
    (any::<u64>(), 0..60usize, 0..6u32).prop_map(|(seed, length, columns)| {
        if columns < 3 { plain(record(seed, length)) } else { shaped(record(seed, length), columns) }
    })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => vec(row(), 1..8).prop_map(Op::Append),
        4 => vec(any::<u64>(), 0..6).prop_map(Op::Delete),
        1 => vec(any::<u64>(), 0..60).prop_map(Op::Delete),
        3 => Just(Op::Compact),
        1 => Just(Op::Sync),
        1 => Just(Op::Reopen),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    (prop::sample::select(&Codec::ALL[..]), 1..200u32, 2..4u32).prop_map(|(codec, limit, bits)| {
        let options = Options::new().codec(codec).chunk_limit(limit).segment_bits(bits);
        if codec == Codec::Raw { options } else { options.level(1) }
    })
}

/// Each operation on both; all handles read the same.
fn check(dir: Arc<dyn Directory>, options: &Options, ops: &[Op]) {
    let mut store = Some(Store::create_in(dir.clone(), options.clone()).unwrap());
    let mut twin = Twin::default();
    for op in std::iter::once(&Op::InstallDict).chain(ops) {
        apply(&dir, options, &mut store, op).unwrap();
        twin = twin.after(op);
        let store = store.as_ref().unwrap();
        assert_eq!(read(store).unwrap(), twin, "after {op:?}");
        if store.has_written() {
            check_files(&*dir, store);
        }
        let stats = store.stats().unwrap();
        assert_eq!(stats.records, twin.0.len() as u64);
        assert_eq!(stats.reclaimable, stats.chunk_bytes - stats.live_bytes);
        if let Op::Compact = op {
            assert_eq!(stats.reclaimable, 0, "after {op:?}");
        }
        let other = Store::open_in(dir.clone(), options.clone()).unwrap();
        assert_eq!(read(&other).unwrap(), twin, "another handle after {op:?}");
    }
}

fn real(path: &Path, map: bool) -> Arc<dyn Directory> {
    Arc::new(RealDirectory::new(path, map))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_store_in_memory_is_its_twin(options in options(), ops in vec(op(), 1..25)) {
        check(Arc::new(MemoryDirectory::new()), &options, &ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_store_on_disk_is_its_twin(options in options(), map in any::<bool>(), ops in vec(op(), 1..12)) {
        let home = tempfile::tempdir().unwrap();
        check(real(home.path(), map), &options, &ops);
    }
}
