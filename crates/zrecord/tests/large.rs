//! Where 32 bits end: chunks, records, tables and batches on both sides of it. What takes gigabytes is ignored by default; `make test-large`
//! runs it, one test at a time.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "tests make files by hand")]

use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zrecord::{Codec, Error, Io, MAX_RECORD_LEN, Options, Records, Store, verify};

const READERS: [Io; 2] = [Io::Mmap, Io::Pread];

fn create(home: &TempDir, options: Options) -> Store {
    Store::create(&home.path().join("s"), options).unwrap()
}

fn open(home: &TempDir, io: Io) -> Store {
    Store::open(&home.path().join("s"), Options::new().io(io)).unwrap()
}

fn size(home: &TempDir, name: &str) -> u64 {
    std::fs::metadata(home.path().join("s").join(name)).unwrap().len()
}

fn number(of: usize) -> u64 {
    u64::try_from(of).unwrap()
}

/// `length` zero bytes: as long as nobody writes to them they take no memory.
fn zeros(length: u64) -> Vec<u8> {
    vec![0; usize::try_from(length).unwrap()]
}

/// Where a record's bytes differ from zero: at its ends and in the middle.
fn marks(length: usize) -> impl Iterator<Item = usize> {
    let places = [0, 1, length / 2, length.wrapping_sub(2), length.wrapping_sub(1)];
    places.into_iter().filter(move |&place| place < length)
}

fn stamp(seed: u8, place: usize) -> u8 {
    seed.wrapping_mul(8) | u8::try_from(place % 7).unwrap()
}

fn mark(record: &mut [u8], seed: u8) {
    for place in marks(record.len()) {
        record[place] = stamp(seed, place);
    }
}

/// Whether `found` is what `mark` makes of zeros; a window at a time, so that nothing is copied.
fn check_marked(found: &mut [u8], seed: u8) {
    for place in marks(found.len()) {
        assert_eq!(found[place], stamp(seed, place), "byte {place} of {}", found.len());
    }
    for place in marks(found.len()) {
        found[place] = 0;
    }
    let zero = vec![0; 1 << 20];
    for (i, window) in found.chunks(1 << 20).enumerate() {
        assert!(window == &zero[..window.len()], "not zero from byte {i} * 2^20 on");
    }
}

/// Says what a step took: its time, and the most memory that this process has had since the step began.
fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    // The peak counts from here; where the kernel doesn't offer that, from the start.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let start = Instant::now();
    let out = work();
    let seconds = start.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("unknown").trim();
    println!("{what}: {seconds:.1} s, peak {peak}");
    out
}

#[test]
fn a_chunk_is_filled_to_its_last_byte() {
    let home = tempfile::tempdir().unwrap();
    let records: Vec<Vec<u8>> = [60, 40, 0, 1, 99, 100, 101, 1].iter().map(|&n| vec![7; n]).collect();
    let store = create(&home, Options::new().codec(Codec::Raw).chunk_limit(100));
    for record in &records {
        store.append(&Records::list(vec![record]), None).unwrap();
    }
    store.close().unwrap();
    let sizes: Vec<u64> = (0..5).map(|chunk| size(&home, &format!("{chunk}.chunk"))).collect();
    assert_eq!(sizes, [100, 100, 100, 101, 1]);
    for io in READERS {
        let store = open(&home, io);
        for (i, record) in (0..).zip(&records) {
            let mut found = vec![0; record.len()];
            store.gather(&[i], &mut found, &[0]).unwrap();
            assert_eq!(found, *record, "{io:?}, {i}");
        }
    }
}

#[test]
fn a_record_of_more_than_2_pow_31_bytes_is_refused_before_anything_is_written() {
    let home = tempfile::tempdir().unwrap();
    let long = zeros(MAX_RECORD_LEN + 1);
    assert_eq!(MAX_RECORD_LEN, 1 << 31);
    for codec in [Codec::Raw, Codec::Zstd] {
        let path = home.path().join(codec.name());
        let store = Store::create(&path, Options::new().codec(codec)).unwrap();
        let files = || {
            let entries = std::fs::read_dir(&path).unwrap().map(Result::unwrap);
            let mut files: Vec<_> =
                entries.map(|file| (file.file_name(), file.metadata().unwrap().len())).collect();
            files.sort();
            files
        };
        let before = files();
        for records in [Records::list(vec![b"short", &long]), Records::rows(&long, 1).unwrap()] {
            let refused = store.append(&records, None).unwrap_err();
            assert!(
                matches!(refused, Error::RecordTooLong { found, .. } if found == (1 << 31) + 1),
                "{refused}"
            );
        }
        assert_eq!((store.len().unwrap(), store.has_written()), (0, false));
        assert_eq!(files(), before);
    }
}

/// Records of up to 2^31 bytes whose chunks reach 2^32 - 1 bytes, and whose store passes 2^33.
#[test]
#[ignore = "10 GiB on disk, 4 GiB of memory"]
fn records_of_2_pow_31_bytes_and_a_store_of_more_than_2_pow_33() {
    let home = tempfile::tempdir().unwrap();
    let lengths: [u64; 8] = [(1 << 31) - 1, 1 << 31, 0, 1, 1 << 31, 1 << 31, (1 << 31) - 1, 3];
    let mut buffer = zeros(1 << 31);
    timed("append 10 GiB in records of 2 GiB", || {
        let store = create(&home, Options::new().codec(Codec::Raw));
        for (seed, length) in (1..).zip(lengths) {
            let record = &mut buffer[..usize::try_from(length).unwrap()];
            mark(record, seed);
            store.append(&Records::list(vec![record]), None).unwrap();
            for place in marks(record.len()) {
                record[place] = 0;
            }
        }
        store.close().unwrap();
    });
    drop(buffer);
    // Two fill a chunk to its last byte; of the next two the second doesn't fit behind the short record.
    let sizes = [0, 1, 2, 3].map(|chunk| size(&home, &format!("{chunk}.chunk")));
    assert_eq!(sizes, [(1 << 32) - 1, (1 << 31) + 1, (1 << 32) - 1, 3]);
    for io in READERS {
        timed(&format!("gather all of it, one by one, {io:?}"), || {
            let mut found = zeros(1 << 31);
            for ((i, seed), length) in (0..).zip(1..).zip(lengths) {
                let place = &mut found[..usize::try_from(length).unwrap()];
                // A handle each: a map would keep the records before in memory.
                open(&home, io).gather(&[i], place, &[0]).unwrap();
                check_marked(place, seed);
            }
        });
    }
    let stats = open(&home, Io::Auto).stats().unwrap();
    assert_eq!((stats.live_bytes, stats.reclaimable), (lengths.iter().sum(), 0));
    let store = open(&home, Io::Auto);
    timed("delete and compact", || {
        // The last two take their places: 0 is that of 2^31 - 1 bytes now, 1 the short one.
        store.delete(&[0, 1]).unwrap();
        store.compact().unwrap();
    });
    assert_eq!(size(&home, "0.chunk"), (1 << 31) + 1);
    timed("delete and compact, 2^31 bytes by one byte, so over themselves", || {
        store.delete(&[3]).unwrap();
        store.compact().unwrap();
    });
    assert_eq!(store.stats().unwrap().reclaimable, 0);
    store.close().unwrap();
    let expected = [(7, (1 << 31) - 1), (8, 3), (3, 0), (6, 1 << 31), (5, 1_u64 << 31)];
    timed("gather what is left", || {
        let mut found = zeros(1 << 31);
        for (i, (seed, length)) in (0..).zip(expected) {
            let place = &mut found[..usize::try_from(length).unwrap()];
            open(&home, Io::Pread).gather(&[i], place, &[0]).unwrap();
            check_marked(place, seed);
        }
    });
    let report = timed("verify", || verify(&home.path().join("s"), &mut |_| true).unwrap());
    assert!(report.is_sound() && report.sound == 5, "{report:?}");
}

/// Pseudo-random bytes, which zstd can't shorten.
struct Noise(u64);

impl Noise {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn fill(&mut self, out: &mut [u8]) {
        for word in out.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_le_bytes()[..word.len()]);
        }
    }
}

#[test]
#[ignore = "2 GiB on disk, 5 GiB of memory"]
fn compressed_records_of_2_pow_31_bytes() {
    let home = tempfile::tempdir().unwrap();
    let store = create(&home, Options::new().level(1));
    let mut buffer = zeros(1 << 31);
    mark(&mut buffer, 9);
    timed("append 2^31 zeros, compressed", || store.append(&Records::list(vec![&buffer]), None).unwrap());
    assert!(size(&home, "0.chunk") < 1 << 20);
    timed("gather them", || {
        store.gather(&[0], &mut buffer, &[0]).unwrap();
        check_marked(&mut buffer, 9);
    });
    Noise::new(5).fill(&mut buffer);
    timed("append 2^31 bytes that don't compress", || {
        store.append(&Records::list(vec![&buffer]), None).unwrap();
    });
    store.close().unwrap();
    let stored = open(&home, Io::Pread).stats().unwrap().live_bytes;
    assert!(stored > 1 << 31, "{stored}");
    for io in READERS {
        buffer.fill(0);
        timed(&format!("gather them, {io:?}"), || open(&home, io).gather(&[1], &mut buffer, &[0]).unwrap());
        let (mut noise, mut expected) = (Noise::new(5), vec![0; 1 << 20]);
        for window in buffer.chunks(1 << 20) {
            noise.fill(&mut expected);
            assert!(window == expected, "{io:?}");
        }
    }
}

/// A plain version 3 store of `length` records without bytes, as `docs/format.md` has it: all table entries are zero.
fn plain_store(home: &TempDir, length: u64) {
    let path = home.path().join("s");
    std::fs::create_dir(&path).unwrap();
    let mut header = [0; 32];
    header[..5].copy_from_slice(b"ZREC\x03");
    header[14..22].copy_from_slice(&length.to_le_bytes());
    std::fs::File::create(path.join("0.loc")).unwrap().set_len(length * 16).unwrap();
    std::fs::write(path.join("meta.zr"), header).unwrap();
}

/// The time of one opening, the best of many.
fn opening(home: &TempDir) -> Duration {
    let once = || {
        let start = Instant::now();
        open(home, Io::Auto).close().unwrap();
        start.elapsed()
    };
    (0..200).map(|_| once()).min().unwrap()
}

fn read(store: &Store, record: u64) -> Vec<u8> {
    let length = store.lengths(&[record]).unwrap()[0];
    let mut found = zeros(length.into());
    store.gather(&[record], &mut found, &[0]).unwrap();
    found
}

#[test]
#[ignore = "a sparse table of 4 GiB"]
fn a_table_crosses_into_its_second_segment() {
    const SEGMENT: u64 = 1 << 28;
    let home = tempfile::tempdir().unwrap();
    plain_store(&home, SEGMENT - 3);
    let few = tempfile::tempdir().unwrap();
    plain_store(&few, 10);
    println!("opening takes {:?} for 10 records, {:?} for 2^28 - 3", opening(&few), opening(&home));

    let rows: Vec<Vec<u8>> = (0..8).map(|i| vec![i; usize::from(i) + 1]).collect();
    let store = open(&home, Io::Auto);
    let new = Records::list(rows.iter().map(Vec::as_slice).collect());
    assert_eq!(timed("append across", || store.append(&new, None).unwrap()), SEGMENT - 3);
    let check = |store: &Store, expected: &[&[u8]]| {
        assert_eq!(store.len().unwrap(), SEGMENT - 3 + number(expected.len()));
        for (record, expected) in (SEGMENT - 3..).zip(expected) {
            assert_eq!(read(store, record), *expected, "{record}");
        }
        for record in [0, 1, SEGMENT / 2, SEGMENT - 4] {
            assert_eq!(read(store, record), b"", "{record}");
        }
        assert!(matches!(store.lengths(&[store.len().unwrap()]), Err(Error::IndexOutOfRange { .. })));
    };
    let all: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
    check(&store, &all);
    store.close().unwrap();
    assert_eq!((size(&home, "0.loc"), size(&home, "1.loc")), (SEGMENT * 16, 5 * 16));
    for io in READERS {
        check(&open(&home, io), &all);
    }

    // By swap-last: 7 goes, then 6 takes the place of 2 and 5 that of 0 (in the first segment, all of them from the second).
    let store = open(&home, Io::Auto);
    timed("delete across", || store.delete(&[SEGMENT + 4, SEGMENT - 1, SEGMENT - 3]).unwrap());
    check(&store, &[&rows[5], &rows[1], &rows[6], &rows[3], &rows[4]]);
    store.close().unwrap();
    let store = open(&home, Io::Pread);
    check(&store, &[&rows[5], &rows[1], &rows[6], &rows[3], &rows[4]]);
    // And back over the boundary: the second segment goes.
    store.delete(&[SEGMENT, SEGMENT + 1, 7]).unwrap();
    check(&store, &[&rows[5], &rows[1]]);
    store.close().unwrap();
    assert_eq!(size(&home, "0.loc"), (SEGMENT - 1) * 16);
    assert!(!Path::exists(&home.path().join("s").join("1.loc")));
    println!("opening takes {:?} for 2^28 - 1", opening(&home));
}

/// Sixty-eight times 64 MiB: more than 2^32 bytes.
const TIMES: usize = 68;
const PIECE: usize = 64 << 20;

#[test]
#[ignore = "4.3 GiB on disk, 5 GiB of memory"]
fn batches_of_more_than_2_pow_32_bytes() {
    let home = tempfile::tempdir().unwrap();
    let store = create(&home, Options::new().codec(Codec::Raw));
    let mut pieces = vec![0; PIECE * 4];
    Noise::new(3).fill(&mut pieces);
    let piece = |record: usize| &pieces[record % 4 * PIECE..][..PIECE];
    let list = Records::list((0..TIMES).map(piece).collect());
    timed("append 4.25 GiB at once, a list", || store.append(&list, None).unwrap());
    let idxs: Vec<u64> = (0..number(TIMES)).map(|i| i * 31 % number(TIMES)).collect();
    let check = |found: &[u8]| {
        for (row, &record) in found.chunks(PIECE).zip(&idxs) {
            assert!(row == piece(usize::try_from(record).unwrap()), "{record}");
        }
    };
    // The last record begins beyond 2^32.
    let offsets = store.packed_offsets(&idxs).unwrap();
    assert!(offsets[TIMES - 1] > 1 << 32 && offsets[TIMES] == number(TIMES * PIECE));
    store.close().unwrap();
    let pread = open(&home, Io::Pread);
    let mut found = zeros(number(TIMES * PIECE));
    timed("gather to offsets beyond 2^32", || pread.gather(&idxs, &mut found, &offsets[..TIMES]).unwrap());
    check(&found);
    found.fill(0);
    timed("gather packed", || pread.gather_packed(&idxs, &offsets, &mut found).unwrap());
    check(&found);
    found.fill(0);
    timed("gather rows", || pread.gather_rows(&idxs, &mut found).unwrap());
    check(&found);

    // The same four again and again, so that their map takes little memory.
    let few: Vec<u64> = (0..TIMES).map(|i| number(i % 4)).collect();
    found.fill(0);
    timed("gather rows, mapped", || open(&home, Io::Mmap).gather_rows(&few, &mut found).unwrap());
    for (i, row) in found.chunks(PIECE).enumerate() {
        assert!(row == piece(i), "{i}");
    }
}

#[test]
#[ignore = "4.3 GiB on disk"]
fn appends_of_more_than_2_pow_32_bytes() {
    let mut src = zeros(number(TIMES * PIECE));
    for (seed, record) in (1..).zip(src.chunks_mut(PIECE)) {
        mark(record, seed);
    }
    let offsets: Vec<u64> = (0..TIMES).map(|i| number(i * PIECE)).collect();
    for (codec, records) in [
        (Codec::Raw, Records::packed(&src, &offsets).unwrap()),
        (Codec::Zstd, Records::rows(&src, TIMES).unwrap()),
    ] {
        let home = tempfile::tempdir().unwrap();
        let store = create(&home, Options::new().codec(codec));
        timed(&format!("append 4.25 GiB at once, {}", codec.name()), || {
            store.append(&records, None).unwrap()
        });
        store.close().unwrap();
        let store = open(&home, Io::Pread);
        let mut found = zeros(number(PIECE));
        for (i, seed) in (0..number(TIMES)).zip(1..) {
            store.gather_rows(&[i], &mut found).unwrap();
            check_marked(&mut found, seed);
        }
    }
}
