//! Archives made by hand; what tarfile writes is compared in `python/tests/test_tar_index.py`.

use super::{Arrays, Files, MISSING, Walk};
use crate::Error;
use crate::tar::header::{BLOCK, seal};
use crate::tar::samples::split;

/// A header with its checksum.
fn header(name: &[u8], size: usize, flag: u8) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    block[..name.len()].copy_from_slice(name);
    block[124..136].copy_from_slice(format!("{size:011o} ").as_bytes());
    block[156] = flag;
    block[257..265].copy_from_slice(b"ustar\x0000");
    sealed(block)
}

fn sealed(mut block: Vec<u8>) -> Vec<u8> {
    seal(block.as_mut_slice().try_into().unwrap());
    block
}

fn member(name: &[u8], flag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = header(name, content.len(), flag);
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
    out
}

/// A walk that is given `step` bytes at once, or as many as it needs.
fn walked(archive: &[u8], step: usize) -> Result<Walk, Error> {
    let mut walk = Walk::new(Arrays { last: vec![b"npy".to_vec()], ..Arrays::default() });
    loop {
        let (position, size) = walk.wanted();
        let from = usize::try_from(position).unwrap().min(archive.len());
        let upto = (from + step.max(usize::try_from(size).unwrap())).min(archive.len());
        walk.feed(&archive[from..upto], position)?;
        if upto - from < usize::try_from(size).unwrap() {
            return walk.finish(archive.len() as u64).map(|()| walk);
        }
    }
}

fn refusal(parts: &[Vec<u8>]) -> String {
    walked(&parts.concat(), 1).unwrap_err().to_string()
}

#[test]
fn files_are_found_whatever_is_given_at_once() {
    let npy = b"\x93NUMPY\x01\x00\x04\x00{..}data";
    let parts = [
        member(b"a.x/1.CLS", b'0', b"7"),
        member(b"a.x/1.npy", b'0', npy),
        member(b"README", b'0', b"no part"),
        member(b"long", b'L', b"2.npy\0"),
        member(b"short", 0, npy),
        vec![0; 2 * BLOCK],
    ];
    let archive = parts.concat();
    for step in [0, 1, 511, 513, 4096] {
        let mut walk = walked(&archive, step).unwrap();
        let fresh = walk.fresh_headers();
        assert_eq!(fresh.len(), 1);
        assert_eq!((&fresh[0].file[..], &fresh[0].bytes[..]), (&b"a.x/1.npy"[..], &npy[..14]));
        let samples = walk.into_samples();
        assert_eq!((&samples.keys[..], &samples.key_ends[..]), (&b"a.x/12"[..], &[5, 6][..]));
        let files = |extension: &[u8], samples, starts, sizes, headers| Files {
            extension: extension.to_vec(),
            samples,
            starts,
            sizes,
            headers,
        };
        let expected = [
            files(b"cls", vec![0], vec![512], vec![1], vec![MISSING]),
            files(b"npy", vec![0, 1], vec![1536, 4608], vec![18, 18], vec![0, 0]),
        ];
        assert_eq!(samples.files, expected);
    }
}

#[test]
fn what_is_no_archive_is_refused_with_its_place() {
    let (file, end) = (member(b"1.txt", b'0', b"text"), vec![0; BLOCK]);
    let mut hurt = member(b"2.txt", b'0', b"text");
    hurt[0] ^= 1;
    let cases = [
        (
            vec![],
            "at byte 0: expected a header, or the empty block that ends an archive, found the end of the file",
        ),
        (vec![file.clone()], "at byte 1024: expected a header"),
        (vec![file.clone(), hurt.clone(), end.clone()], "at byte 1024: expected a header"),
        (vec![file[..600].to_vec()], "goes on up to byte 1024, and the archive ends at byte 600"),
        (vec![file.clone(), end.clone(), file.clone()], "more after the end of the archive, at byte 1536"),
        (vec![member(b"l", b'L', b"name"), end.clone()], "after a header that is about the next file"),
        (vec![header(b"l", 1 << 30, b'L'), end.clone()], "extended header of 1073741824 bytes"),
        (
            vec![member(b"x", b'x', b"8 size=1\n")],
            "at byte 512: expected an extended header of a file, found other bytes",
        ),
        (vec![member(b"x", b'x', b"22 GNU.sparse.major=1\n")], "found that of a sparse file"),
        (vec![member(b"g", b'g', b"9 path=a\n")], "a name or a size for all files"),
        (vec![header(b"1.txt", 0, b'S')], "'1.txt' is a sparse file"),
        (vec![header(b"1.txt", 0, b'2')], "'1.txt' is a link"),
        (vec![header(b"1.txt", 0, b'6')], "'1.txt' is no regular file"),
        (vec![file.clone(), file], "sample '1' has two files 'txt'"),
    ];
    for (parts, text) in cases {
        let found = refusal(&parts);
        assert!(found.contains(text), "{found}; expected {text}");
    }
}

#[test]
fn sizes_may_be_binary_but_not_out_of_reach() {
    let mut block = header(b"1.bin", 0, b'0');
    block[124..136].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    let block = sealed(block);
    let mut walk = Walk::new(Arrays::default());
    walk.feed(&block, 0).unwrap();
    assert_eq!(walk.wanted(), (512 + (2 << 32), 512));
    assert_eq!(walk.samples().files[0].sizes, [2 << 32]);
    for (first, top) in [(0x80, 0x80), (0xff, 0), (0x80, 0x7f)] {
        let mut block = block.clone();
        (block[124], block[128], block[131]) = (first, top, 0xff);
        assert!(walked(&sealed(block), 1).is_err());
    }
}

#[test]
fn names_are_split_as_webdataset_does() {
    type Split = Option<(&'static [u8], &'static [u8])>;
    let cases: [(&[u8], Split); 12] = [
        (b"a.txt", Some((b"a", b"txt"))),
        (b"d.d/a.b.TXT", Some((b"d.d/a", b"b.txt"))),
        (b"a/.hidden", Some((b"a/", b"hidden"))),
        (b"a.b/.hidden", None),
        (b"a.b/c/.hidden", Some((b"a.b/c/", b"hidden"))),
        (b".hidden", None),
        (b"a", None),
        (b"a.", None),
        (b"a.x/b", None),
        (b"__m__/a.txt", None),
        (b"__m/a.txt", Some((b"__m/a", b"txt"))),
        (b"a.\xc3\x84\xff", Some((b"a", b"\xc3\xa4\xff"))),
    ];
    for (name, expected) in cases {
        assert_eq!(split(name), expected.map(|(key, ext)| (key, ext.to_vec())), "{name:?}");
    }
}
