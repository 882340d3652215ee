//! The naive twin of a store, the operations that both understand, and how the two are compared.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "for tests and fuzzing only: a panic is a finding"
)]

use std::sync::{Arc, LazyLock};

use crate::codec::{Codec, build_dict};
use crate::error::{Error, Result};
use crate::format::Shape;
use crate::options::Options;
use crate::storage::Directory;
use crate::storage::memory::MemoryDirectory;
use crate::{Records, Store};

/// A record of the twin.
pub(crate) type Row = (Vec<u8>, Shape);

/// A thing to do to a store.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Append(Vec<Row>),
    /// Positions, taken modulo the length.
    Delete(Vec<u64>),
    Compact,
    Sync,
    Reopen,
    InstallDict,
}

/// A store as a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Twin(pub(crate) Vec<Row>);

pub(crate) static DICT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let samples: Vec<Vec<u8>> = (0..500).map(|i| record(i, 40)).collect();
    let sizes: Vec<u64> = samples.iter().map(|sample| sample.len() as u64).collect();
    build_dict(&samples.concat(), &sizes, 512).unwrap()
});

/// A record of `length` bytes that differs for each `seed`, and that zstd can do something with.
pub(crate) fn record(seed: u64, length: usize) -> Vec<u8> {
    let text = format!("{}-{seed} ", seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40);
    text.bytes().cycle().take(length).collect()
}

pub(crate) fn plain(bytes: Vec<u8>) -> Row {
    (bytes, Shape::default())
}

/// The record as a matrix of `columns`.
pub(crate) fn shaped(bytes: Vec<u8>, columns: u32) -> Row {
    let rows = u32::try_from(bytes.len()).unwrap() / columns;
    (bytes, Shape([3, rows, columns, 0, 0, 0, 0, 0]))
}

/// Small chunks and segments, so that everything rolls over.
pub(crate) fn small(codec: Codec) -> Options {
    let options = Options::new().codec(codec).chunk_limit(100).segment_bits(2);
    if codec == Codec::Raw { options } else { options.level(1) }
}

/// The operation's positions in a store of `length`.
pub(crate) fn positions(idxs: &[u64], length: u64) -> Vec<u64> {
    if length == 0 { Vec::new() } else { idxs.iter().map(|idx| idx % length).collect() }
}

impl Twin {
    /// The twin after `op`.
    pub(crate) fn after(&self, op: &Op) -> Self {
        let mut rows = self.0.clone();
        match op {
            Op::Append(new) => rows.extend(new.iter().cloned()),
            Op::Delete(idxs) => {
                let mut idxs = positions(idxs, rows.len() as u64);
                idxs.sort_unstable();
                idxs.dedup();
                for idx in idxs.into_iter().rev() {
                    rows.swap_remove(usize::try_from(idx).unwrap());
                }
            }
            Op::Compact | Op::Sync | Op::Reopen | Op::InstallDict => {}
        }
        Self(rows)
    }

    /// Whether this is `whole`, or what is left of it if it ends earlier but not before `durable`.
    pub(crate) fn is_prefix(&self, whole: &Self, durable: &Self) -> bool {
        self.0.len() >= durable.0.len() && whole.0.starts_with(&self.0) && self.0.starts_with(&durable.0)
    }
}

/// Do `op`; `store` is `None` only while it is opened again.
pub(crate) fn apply(
    dir: &Arc<dyn Directory>,
    options: &Options,
    store: &mut Option<Store>,
    op: &Op,
) -> Result<()> {
    if let Op::Reopen = op {
        store.take().map_or(Ok(()), |store| store.close())?;
        *store = Some(Store::open_in(dir.clone(), options.clone())?);
        return Ok(());
    }
    let store = store.as_ref().unwrap();
    match op {
        Op::Append(rows) => append(store, rows),
        Op::Delete(idxs) => store.delete(&positions(idxs, store.len()?)),
        Op::Compact => store.compact(),
        Op::Sync => store.sync(),
        Op::InstallDict if store.codec() == Codec::ZstdDict => store.install_dict(&DICT),
        Op::InstallDict | Op::Reopen => Ok(()),
    }
}

pub(crate) fn append(store: &Store, rows: &[Row]) -> Result<()> {
    let records = Records::list(rows.iter().map(|(bytes, _)| bytes.as_slice()).collect());
    let shapes: Vec<Shape> = rows.iter().map(|&(_, shape)| shape).collect();
    let shapes = if shapes.iter().all(Shape::is_plain) { None } else { Some(shapes.as_slice()) };
    let first = store.len()?;
    assert_eq!(store.append(&records, shapes)?, first);
    Ok(())
}

/// Everything that the store holds, each read checked.
pub(crate) fn read(store: &Store) -> Result<Twin> {
    let idxs: Vec<u64> = (0..store.len()?).collect();
    if idxs.is_empty() {
        // Also where nothing could be read: a store that awaits its dictionary.
        return Ok(Twin::default());
    }
    let offsets = store.packed_offsets(&idxs)?;
    let offsets: Vec<usize> = offsets.iter().map(|&offset| usize::try_from(offset).unwrap()).collect();
    let mut bytes = vec![0xAA; offsets.last().copied().unwrap_or(0)];
    let starts: Vec<u64> = offsets.iter().take(idxs.len()).map(|&offset| offset as u64).collect();
    store.gather(&idxs, &mut bytes, &starts)?;
    let records = offsets.windows(2).map(|pair| bytes[pair[0]..pair[1]].to_vec());
    Ok(Twin(records.zip(store.shapes(&idxs)?).collect()))
}

/// The laws of the files of a store that a writer has opened: no leftovers, nothing longer than its content.
pub(crate) fn check_files(dir: &dyn Directory, store: &Store) {
    let (length, stats) = (store.len().unwrap(), store.stats().unwrap());
    let mut tables = [
        (".loc", 16, true),
        (".sum", 4, store.sums_known().unwrap()),
        (".shape", 32, store.has_shapes().unwrap()),
    ]
    .map(|(extension, width, kept)| (extension, if kept { width * length } else { 0 }));
    let mut chunk_bytes = stats.chunk_bytes;
    for name in dir.list().unwrap() {
        let bytes = dir.open(&name, crate::storage::Access::Read).unwrap().len().unwrap();
        assert!(!name.ends_with(".tmp") && name != "intent.zr", "{name} was left");
        if let Some((_, left)) = tables.iter_mut().find(|(extension, _)| name.ends_with(extension)) {
            assert!(bytes > 0, "{name} is empty");
            *left = left.checked_sub(bytes).unwrap_or_else(|| panic!("{name} is longer than its content"));
        } else if name.ends_with(".chunk") {
            assert!(bytes > 0, "{name} is empty");
            chunk_bytes =
                chunk_bytes.checked_sub(bytes).unwrap_or_else(|| panic!("{name} is no chunk of the store"));
        }
    }
    assert_eq!(tables.map(|(_, left)| left), [0; 3], "the tables end too early");
    assert_eq!(chunk_bytes, 0, "the chunks end too early");
}

/// Whatever happened to the store before: it can be appended to, read, cut to its content, closed and opened, and what was there
/// when it was closed is durable.
pub(crate) fn check_usable(dir: &MemoryDirectory, options: &Options, store: Store, content: &Twin) {
    if store.codec() == Codec::ZstdDict && !store.has_dict().unwrap() {
        assert!(matches!(append(&store, &[plain(vec![1])]), Err(Error::MissingDictionary { .. })));
        // No record is no batch that needs one.
        store.gather(&[], &mut [], &[]).unwrap();
        store.gather_rows(&[], &mut []).unwrap();
        assert_eq!(store.gather_packed(&[], &[0], &mut []).unwrap(), None);
        store.install_dict(&DICT).unwrap();
    }
    let new = vec![shaped(record(777, 12), 3), plain(record(778, 30))];
    append(&store, &new).unwrap();
    let expected = content.after(&Op::Append(new));
    assert_eq!(read(&store).unwrap(), expected);
    assert!(store.sums_known().unwrap());
    check_files(dir, &store);
    store.close().unwrap();
    for dir in [dir.power_cut(&mut |_| 0), dir.clone()] {
        let store = Store::open_in(Arc::new(dir), options.clone()).unwrap();
        assert_eq!(read(&store).unwrap(), expected);
    }
}

/// The handle whose write failed: it reads what was there before or after, or says that it can't, and never writes again.
pub(crate) fn check_reads_after_a_fault(store: Option<Store>, before: &Twin, after: &Twin) {
    let Some(store) = store else { return };
    match read(&store) {
        Ok(content) => assert!(content == *before || content == *after, "{content:?}"),
        Err(e) => assert!(matches!(e, Error::Closed { .. } | Error::Unfinished { .. }), "{e}"),
    }
    assert!(store.append(&Records::list(vec![b"more"]), None).is_err());
}
