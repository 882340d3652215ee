//! Opening takes the same few reads, and next to no memory, however many records there are.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![expect(clippy::disallowed_methods, reason = "tests make files by hand")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use zrecord::{Codec, Options, Records, Store};

const MANY: u64 = 100_000_000;

/// A closed store of three records.
fn small(path: &Path) -> Store {
    let store = Store::create(path, Options::new().codec(Codec::Raw)).unwrap();
    store.append(&Records::list(vec![b"one", b"two", b"and three"]), None).unwrap();
    store.close().unwrap();
    store
}

/// Make it a store of `length` records, as it would be after they were appended and the store closed: the last record is the third
/// one again, and those between are holes in the files, which take no disk.
fn grow(path: &Path, length: u64) {
    for (name, width) in [("0.loc", 16), ("0.sum", 4)] {
        let file = OpenOptions::new().read(true).write(true).open(path.join(name)).unwrap();
        let mut third = vec![0; width];
        file.read_exact_at(&mut third, 2 * width as u64).unwrap();
        file.write_all_at(&third, (length - 1) * width as u64).unwrap();
    }
    let mut header = fs::read(path.join("meta.zr")).unwrap();
    header[14..22].copy_from_slice(&length.to_le_bytes());
    seal(&mut header);
    fs::write(path.join("meta.zr"), &header).unwrap();
    // Both slots, so that the newer one is among them.
    let mut slots = fs::read(path.join("sync.zr")).unwrap();
    for slot in [0, 512] {
        slots[slot..slot + 32].copy_from_slice(&header);
        seal(&mut slots[slot..slot + 52]);
    }
    fs::write(path.join("sync.zr"), slots).unwrap();
}

/// Put the CRC-32C of what comes before into the last four bytes.
fn seal(bytes: &mut [u8]) {
    let (content, sum) = bytes.split_last_chunk_mut::<4>().map(|(content, sum)| (&*content, sum)).unwrap();
    let crc = content.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82F6_3B78 } else { 0 })
    });
    *sum = (!crc).to_le_bytes();
}

/// Bytes read and read calls made so far, where the system tells; and the bytes that asking for these has read since, which get more with their digits.
fn reads() -> (Vec<u64>, u64) {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let counts = io
        .lines()
        .filter(|line| line.starts_with("rchar") || line.starts_with("syscr"))
        .filter_map(|line| line.split(' ').nth(1)?.parse().ok())
        .collect();
    (counts, io.len() as u64)
}

/// The most memory in use since this was last asked, in KiB, where the system tells.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse().ok());
    let _ = fs::write("/proc/self/clear_refs", "5");
    peak.unwrap_or_default()
}

/// What opening took: reads, KiB, time.
fn open(path: &Path, options: Options) -> (Store, Vec<u64>, u64, Duration) {
    peak();
    let (memory, (before, asked)) = (peak(), reads());
    let start = Instant::now();
    let store = Store::open(path, options).unwrap();
    let time = start.elapsed();
    let (after, _) = reads();
    let mut reads: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
    if let Some(bytes) = reads.first_mut() {
        *bytes -= asked;
    }
    (store, reads, peak().saturating_sub(memory), time)
}

#[test]
fn a_store_of_a_hundred_million_records_opens_as_one_of_three() {
    let home = tempfile::tempdir().unwrap();
    let [few, many] = ["few", "many"].map(|name| home.path().join(name));
    small(&few);
    small(&many);
    grow(&many, MANY);
    for options in [Options::new(), Options::new().read_only(true)] {
        // The first one pays for what a process does once.
        open(&few, options.clone());
        let (_, few_reads, _, _) = open(&few, options.clone());
        let (store, reads, memory, time) = open(&many, options);
        assert_eq!(store.len().unwrap(), MANY);
        assert_eq!(reads, few_reads, "bytes and calls");
        assert!(memory < 10 << 10, "{memory} KiB");
        assert!(time < Duration::from_millis(250), "{time:?}");
        println!("{MANY} records: {time:?}, {memory} KiB, reads {reads:?}");

        // It is a store that works, not one that was merely not looked at.
        let mut found = [0; 12];
        store.gather(&[0, MANY - 1], &mut found, &[0, 3]).unwrap();
        assert_eq!(&found, b"oneand three");
    }
}
