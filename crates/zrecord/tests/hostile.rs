//! Stores on real files, changed from outside: every byte of every file, every length, junk behind it, and no file at all; read through
//! maps and by positional reads. Whatever it is, the answer is right or an error that says what is damaged (the exam is in
//! `exam`), and nobody asks for more memory than the files can justify.
//!
//! Stores of several segments, and those with a change under way: `src/tests/hostile.rs`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "tests change files from outside"
)]

mod exam;
mod memory;

use std::path::{Path, PathBuf};

use exam::{Access, Change, Files, Law, Row, changes, examine_all, examine_reader};
use zrecord::{Codec, Error, Io, Options, Records, Result, Shape, Store, Verify, build_dict};

/// More than anybody may ask for at once: the files of these stores have a few KiB.
const MOST_MEMORY: usize = 1 << 20;

/// A directory in memory where there is one: the exams write a hundred thousand files and sync most of them.
fn home() -> tempfile::TempDir {
    let fast = Path::new("/dev/shm");
    if fast.is_dir() { tempfile::tempdir_in(fast).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn row(i: usize, ragged: bool) -> Row {
    let length = [9, 40, 16, 24, 32, 41, 61][i % 7];
    let bytes: Vec<u8> = format!("record {i} ").bytes().cycle().take(length).collect();
    let shape = Shape([3, u32::try_from(length).unwrap(), 1, 0, 0, 0, 0, 0]);
    (bytes, if ragged && !i.is_multiple_of(3) { shape } else { Shape::default() })
}

fn dictionary() -> Vec<u8> {
    let samples: Vec<Vec<u8>> = (0..500).map(|i| row(i, false).0).collect();
    let sizes: Vec<u64> = samples.iter().map(|sample| sample.len() as u64).collect();
    build_dict(&samples.concat(), &sizes, 512).unwrap()
}

fn append(store: &Store, rows: &[Row]) {
    let records = Records::list(rows.iter().map(|(bytes, _)| bytes.as_slice()).collect());
    let shapes: Vec<Shape> = rows.iter().map(|&(_, shape)| shape).collect();
    let plain = shapes.iter().all(Shape::is_plain);
    store.append(&records, if plain { None } else { Some(&shapes) }).unwrap();
}

fn options() -> Options {
    Options::new().chunk_limit(100)
}

/// Seven records of which the first was deleted, all synced.
fn start(path: &Path, codec: Codec, ragged: bool) -> (Store, Vec<Row>) {
    let store = Store::create(path, options().codec(codec).schema(b"schema".to_vec())).unwrap();
    if codec == Codec::ZstdDict {
        store.install_dict(&dictionary()).unwrap();
    }
    let mut rows: Vec<Row> = (0..7).map(|i| row(i, ragged)).collect();
    append(&store, &rows);
    store.delete(&[0]).unwrap();
    rows.swap_remove(0);
    store.sync().unwrap();
    (store, rows)
}

fn files(path: &Path) -> Files {
    let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap());
    entries.map(|e| (e.file_name().into_string().unwrap(), std::fs::read(e.path()).unwrap())).collect()
}

/// A directory that holds a store's files, one of them changed.
struct Desk<'a> {
    path: PathBuf,
    files: &'a Files,
}

impl Desk<'_> {
    fn put_all(&self) {
        let _ = std::fs::remove_dir_all(&self.path);
        std::fs::create_dir(&self.path).unwrap();
        for (name, bytes) in self.files {
            self.put(name, Some(bytes));
        }
    }

    fn put(&self, name: &str, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => std::fs::write(self.path.join(name), bytes).unwrap(),
            None => std::fs::remove_file(self.path.join(name)).unwrap(),
        }
    }

    fn open(&self, io: Io, access: Access) -> Result<Store> {
        let verify = if access == Access::Unchecked { Verify::Never } else { Verify::Always };
        Store::open(&self.path, options().io(io).verify(verify).read_only(access != Access::Write))
    }
}

/// The exam of every change, by readers of both kinds; by a writer for some.
fn examine(name: &str, files: &Files, law: &Law) {
    let home = home();
    let desk = &Desk { path: home.path().join("s"), files };
    desk.put_all();
    let (mut bytes, mut cuts, mut all, mut refused) = (0, 0, 0_usize, 0);
    let mut failures = Vec::new();
    memory::watch();
    for (file, content) in files {
        bytes += content.len();
        for change in changes(file, content) {
            let expected = law.expected(files, file, change);
            desk.put(file, change.apply(content).as_deref());
            let ios = if all.is_multiple_of(2) { [Io::Mmap, Io::Pread] } else { [Io::Pread, Io::Mmap] };
            // The writer's exam takes longest. In memory it is done for every change, of all stores but plain ones.
            let writes = !change.is_again() && (law.plain || all.is_multiple_of(3));
            let exam = || {
                let [first, second] = ios.map(|io| move |access| desk.open(io, access));
                let opened = examine_reader(&first, &expected);
                assert_eq!(opened, examine_all(&second, &expected, writes), "both ways of reading");
                opened
            };
            match exam::outcome(exam) {
                Ok(opened) => refused += usize::from(!opened),
                Err(why) => failures.push(format!("{file}, {change:?}: {why}")),
            }
            let most = memory::most();
            if most > MOST_MEMORY {
                failures.push(format!("{file}, {change:?}: {most} bytes of memory were asked for at once"));
                memory::watch();
            }
            all += 1;
            cuts += usize::from(matches!(change, Change::Cut(_)));
            if writes { desk.put_all() } else { desk.put(file, Some(content)) }
        }
    }
    let most = memory::most();
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    println!(
        "{name}: {bytes} bytes changed, {cuts} lengths cut, {all} changes, {refused} refused; {most} bytes at most"
    );
    assert_eq!(cuts, bytes);
    assert!(bytes > 250 && all > bytes * 5 / 2 && refused > 250, "the test has shrunk");
}

fn settled(codec: Codec, ragged: bool) {
    let home = home();
    let path = home.path().join("s");
    let (store, rows) = start(&path, codec, ragged);
    store.close().unwrap();
    examine(&format!("{codec:?}, ragged: {ragged}"), &files(&path), &Law::settled(rows, 1 << 28));
}

#[test]
fn dense_raw() {
    settled(Codec::Raw, false);
}

#[test]
fn dense_zstd() {
    settled(Codec::Zstd, false);
}

#[test]
fn dense_zstd_dict() {
    settled(Codec::ZstdDict, false);
}

#[test]
fn ragged_raw() {
    settled(Codec::Raw, true);
}

#[test]
fn ragged_zstd() {
    settled(Codec::Zstd, true);
}

#[test]
fn ragged_zstd_dict() {
    settled(Codec::ZstdDict, true);
}

/// The directory of a writer that is at work is what a killed one leaves.
#[test]
fn after_a_crash() {
    for codec in [Codec::Raw, Codec::Zstd] {
        let home = home();
        let path = home.path().join("s");
        let (store, mut rows) = start(&path, codec, codec == Codec::Zstd);
        let durable = rows.len();
        let more: Vec<Row> = (7..10).map(|i| row(i, codec == Codec::Zstd)).collect();
        append(&store, &more);
        rows.extend(more);
        let law = Law { durable, ..Law::settled(rows, 1 << 28) };
        examine(&format!("{codec:?}, not synced"), &files(&path), &law);
    }
}

/// What a plain version 3 writer leaves: no sums, no second copy of the header.
#[test]
fn of_a_plain_writer() {
    for codec in [Codec::Raw, Codec::Zstd] {
        let home = home();
        let path = home.path().join("s");
        let (store, rows) = start(&path, codec, false);
        store.close().unwrap();
        let mut files = files(&path);
        files.retain(|name, _| name == "meta.zr" || name.ends_with(".loc") || name.ends_with(".chunk"));
        files.get_mut("meta.zr").unwrap()[22..].fill(0);
        let law = Law { plain: true, ..Law::settled(rows, 1 << 28) };
        examine(&format!("{codec:?}, plain version 3"), &files, &law);
    }
}

/// A foreign program cuts a file that a reader has mapped: the next gather says so, and the process lives.
#[test]
fn a_file_that_is_cut_under_a_reader() {
    for io in [Io::Mmap, Io::Pread] {
        for codec in Codec::ALL {
            let home = home();
            let path = home.path().join("s");
            // Longer than a page: what lies behind a file's end within its last page can be read, as zeros.
            let store = Store::create(&path, options().codec(codec).chunk_limit(1 << 20)).unwrap();
            if codec == Codec::ZstdDict {
                store.install_dict(&dictionary()).unwrap();
            }
            let mut state = 1_u64;
            let mut noise = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                state.to_le_bytes()[7]
            };
            let rows: Vec<Row> = (0..3000)
                .map(|i| ((0..20).map(|_| noise()).collect(), Shape([3, i % 2 + 1, 20, 0, 0, 0, 0, 0])))
                .collect();
            append(&store, &rows);
            store.close().unwrap();
            let files = files(&path);
            let expected: Vec<u8> = rows.iter().flat_map(|(bytes, _)| bytes).copied().collect();
            let idxs: Vec<u64> = (0..3000).collect();
            let mut found = vec![0; expected.len()];
            for name in ["0.loc", "0.sum", "0.shape", "0.chunk"] {
                let whole = &files[name];
                for length in [0, 1, 4096, whole.len() / 2, whole.len() - 1] {
                    let reader = Store::open(&path, Options::new().io(io)).unwrap();
                    reader.gather_rows(&idxs, &mut found).unwrap();
                    assert!(found == expected);
                    let file = std::fs::OpenOptions::new().write(true).open(path.join(name)).unwrap();
                    file.set_len(length as u64).unwrap();
                    let outcome = reader.gather_rows(&idxs, &mut found);
                    assert!(
                        matches!(outcome, Err(Error::CorruptStore { .. })),
                        "{name}, {length}: {outcome:?}"
                    );
                    // What others do with what is left is their business, but they do it without a signal.
                    for index in [0, 1499, 2999] {
                        let one = reader.gather_rows(&[index], &mut found[..20]);
                        let at = usize::try_from(index).unwrap();
                        assert!(one.is_err() || found[..20] == rows[at].0, "{name}, {length}: {index}");
                    }
                    let _ = (reader.lengths(&idxs), reader.shapes(&idxs), reader.stats());
                    std::fs::write(path.join(name), whole).unwrap();
                    reader.gather_rows(&idxs, &mut found).unwrap();
                    assert!(found == expected, "{name} is whole again");
                }
            }
        }
    }
}
