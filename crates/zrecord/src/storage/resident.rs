//! How much of the maps of files this process has in its page tables.

use std::fs;
use std::io::{self, BufRead};
use std::ops::Range;

/// Bytes of these stretches of address space that are resident; `None` where the system doesn't say.
///
/// The system walks the page tables of the whole process for it: some ten milliseconds where tens of GiB are resident.
pub(crate) fn resident(places: &[Range<usize>]) -> io::Result<Option<u64>> {
    #[expect(
        clippy::disallowed_methods,
        reason = "no file of a store, and this folder is the door to the disk"
    )]
    match fs::File::open("/proc/self/smaps") {
        Ok(file) => counted(io::BufReader::new(file), places).map(Some),
        Err(_) => Ok(None),
    }
}

/// Add up the `Rss` of the mappings that begin in one of `places`. None begins before it: neighbours show other files, and aren't joined.
fn counted(smaps: impl BufRead, places: &[Range<usize>]) -> io::Result<u64> {
    let mut bytes = 0u64;
    let mut ours = false;
    // Names of mapped files are bytes, not text.
    for line in smaps.split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        let Some(first) = line.split_ascii_whitespace().next() else { continue };
        if let Some(start) = start_of(first) {
            ours = places.iter().any(|place| place.contains(&start));
        } else if ours && first == "Rss:" {
            bytes += kibibytes(&line).ok_or(io::ErrorKind::InvalidData)? << 10;
        }
    }
    Ok(bytes)
}

/// The first address of a mapping, whose first line begins with `7f00-7f10`.
fn start_of(word: &str) -> Option<usize> {
    usize::from_str_radix(word.split_once('-')?.0, 16).ok()
}

fn kibibytes(line: &str) -> Option<u64> {
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &[u8] = b"\
7f0000000000-7f0000003000 r--s 00000000 fe:00 7 /s/0.chunk
Size:                 12 kB
Rss:                   8 kB
Pss:                   8 kB
VmFlags: rd sh mr mw me ms rr
7f0000003000-7f0000004000 r--s 00000000 fe:00 8 /s/\xff Rss: 9 kB
Rss:                   4 kB
7f1000000000-7f1000002000 rw-p 00000000 00:00 0
Rss:                   4 kB
";

    #[test]
    fn only_what_lies_in_a_place_counts() {
        let (first, second) = (0x7f00_0000_0000..0x7f00_0000_2fff, 0x7f00_0000_3000..0x7f00_0000_3001);
        let behind = 0x7f10_0000_1000..0x7f10_0000_2000;
        for (places, found) in [
            (vec![], 0),
            (vec![first.clone(), behind.clone()], 8 << 10),
            (vec![second, first], 12 << 10),
            (vec![behind; 2], 0),
        ] {
            assert_eq!(counted(SMAPS, &places).unwrap(), found, "{places:x?}");
        }
    }

    #[test]
    fn what_is_no_number_is_an_error() {
        let broken = b"1000-2000 r--s\nRss: many kB\n";
        let places = [0x1000..0x2000, 0x2000..0x3000];
        assert!(counted(&broken[..], &places).is_err());
    }
}
