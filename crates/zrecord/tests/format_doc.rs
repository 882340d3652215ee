//! The worked example of `docs/format.md`: what the page shows is what the code writes, byte for byte.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests look at files from outside")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use zrecord::{Codec, Options, Records, Shape, Store};

/// The files of the example store, as hex with 16 bytes a line; long runs of zeros in `sync.zr` are left out.
fn written() -> BTreeMap<String, String> {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("example");
    let store = Store::create(&path, Options::new().codec(Codec::Raw)).unwrap();
    let shapes = [Shape::default(), Shape::default(), Shape([3, 1, 5, 0, 0, 0, 0, 0])];
    store.append(&Records::list(vec![b"abc", b"", b"hello"]), Some(&shapes)).unwrap();
    store.delete(&[0]).unwrap();
    store.close().unwrap();
    let bytes = |name: &str| std::fs::read(path.join(name)).unwrap();
    let mut files: BTreeMap<String, String> = ["meta.zr", "0.loc", "0.sum", "0.shape", "0.chunk"]
        .map(|name| (name.to_owned(), hex(&bytes(name))))
        .into();
    let slots = bytes("sync.zr");
    assert_eq!(slots.len(), 1024);
    for at in [0, 512] {
        let (slot, rest) = slots.get(at..at + 512).unwrap().split_at(52);
        assert!(rest.iter().all(|&b| b == 0));
        files.insert(format!("sync.zr at {at}"), hex(slot));
    }
    files
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for line in bytes.chunks(16) {
        for byte in line {
            write!(text, "{byte:02x} ").unwrap();
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// The page's blocks that begin with "```hex NAME".
fn documented() -> BTreeMap<String, String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let text = std::fs::read_to_string(page).unwrap();
    let blocks = text.split("```hex ").skip(1);
    blocks
        .map(|block| {
            let (name, rest) = block.split_once('\n').unwrap();
            (name.to_owned(), rest.split_once("```").unwrap().0.to_owned())
        })
        .collect()
}

#[test]
fn the_worked_example_is_what_is_written() {
    let written = written();
    let page: String = written.iter().fold(String::new(), |mut page, (name, text)| {
        write!(page, "```hex {name}\n{text}```\n").unwrap();
        page
    });
    assert_eq!(documented(), written, "the page should say:\n{page}");
}
