from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from converting import (
    FIXTURES,
    assert_holds,
    begins_everywhere,
    converted,
    cuts,
    damaged,
    flips,
    needed,
    records_from,
    resumes_everywhere,
    selects,
    small_parts,
    source_of,
    texts,
    writes_nothing,
)
from loaderx.converters import convert
from loaderx.converters.formats import pieces
from support import all_same

FILES = FIXTURES / "webdataset"
SHARDS = [FILES / "shard-1.tar", FILES / "shard-10.tar"]
SOURCES: dict[str, Any] = {"plain": SHARDS, **{name: FILES / f"all.{name}" for name in ("tar.gz", "tar.bz2")}}


class Special(NamedTuple):
    """A member that is no file."""

    type: bytes


@pytest.mark.parametrize("name", SOURCES)
def test_the_samples_that_webdataset_wrote(tmp_path: Path, name: str) -> None:
    streams = converted(SOURCES[name], tmp_path / "out")
    count = range(14)
    assert texts(streams["__key__"]) == [f"some/dir/{i:04}" for i in count]
    assert_holds(streams["cls"], np.array(count) - 5, "<i8")
    assert texts(streams["txt"]) == [f"h\u00e9 {i}" for i in count]
    assert [json.loads(text) for text in texts(streams["json"])] == [{"number": i, "list": [1.5, None]} for i in count]
    assert_holds(streams["npy"], np.stack([np.arange(6, dtype="f4").reshape(2, 3) * i for i in count]), "<f4")
    assert_holds(streams["any.npy"], [np.arange(i % 4 * 3, dtype="i2").reshape(3, -1) for i in count], "<i2")
    assert [record.tobytes() for record in streams["half.bin"].records] == [bytes(range(i)) for i in count]
    assert "text" not in streams["half.bin"].metadata


@pytest.mark.parametrize("name", ["plain", "tar.gz"])
def test_it_begins_and_resumes_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    small_parts(monkeypatch, 400)
    begins_everywhere(SOURCES[name])
    assert resumes_everywhere(SOURCES[name], tmp_path, most=3) > 3


@pytest.mark.parametrize("name", ["plain", "tar.gz"])
def test_each_stream_alone(tmp_path: Path, name: str) -> None:
    selects(SOURCES[name], tmp_path)


def test_few_wanted_bytes_are_read_by_themselves(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for i in range(40):
            add(archive, f"{i}.jpg", bytes(100_000))
            add(archive, f"{i}.cls", str(i).encode())
            add(archive, f"{i}.txt", b"t" * i)
    with source_of(tmp_path / "x.tar") as source:
        found = records_from(source, 3, ["cls", "txt"])
    assert [int(number) for number in found["cls"]] == list(range(3, 40))
    assert [len(text) for text in found["txt"]] == list(range(3, 40))


def test_a_dry_run_says_what_it_would_do(tmp_path: Path) -> None:
    said = writes_nothing(SHARDS, tmp_path)
    assert "WebDataset tar shards, 2 files" in said
    assert "14 records" in said
    assert "npy: dense (2, 3) '<f4', zstd, from files 'npy'" in said
    assert "any.npy: ragged '<i2'" in said


def test_samples_that_lack_files(tmp_path: Path) -> None:
    path = FILES / "lacking.tar"
    lacks = np.array([(i - 5) % 3 == 0 for i in range(8)])
    with pytest.raises(ValueError, match=r"lacking.tar: sample 'some/dir/0002' has no file '(npy|cls)'.*nulls='mask'"):
        convert(path, tmp_path / "refused" / "a")
    assert "which 2 of 8 samples don't have" in writes_nothing(path, tmp_path)
    assert list(converted(path, tmp_path / "b", streams=["json", "__key__"])) == ["__key__", "json"]
    streams = converted(path, tmp_path / "c", nulls="mask")
    for name in ("cls", "npy", "txt"):
        assert_holds(streams[f"{name}.valid"], ~lacks)
    assert "json.valid" not in streams
    assert_holds(streams["cls"], np.where(lacks, 0, np.arange(8) - 5))
    zeros = np.zeros((2, 3), "f4")
    assert_holds(
        streams["npy"], np.stack([zeros if lacks[i] else np.arange(6, dtype="f4").reshape(2, 3) * i for i in range(8)])
    )
    assert texts(streams["txt"]) == ["" if lacks[i] else f"h\u00e9 {i}" for i in range(8)]


def test_a_file_that_a_whole_shard_lacks(tmp_path: Path) -> None:
    made(tmp_path / "1.tar", [("0.cls", b"1"), ("0.npy", npy(np.arange(3)))])
    made(tmp_path / "2.tar", [("0.txt", b"text"), ("1.txt", b"")])
    streams = converted(tmp_path, tmp_path.parent / f"{tmp_path.name}-out", nulls="mask")
    assert streams["cls"].records.tolist() == [1, 0, 0]  # type: ignore[attr-defined]
    assert streams["npy.valid"].records.tolist() == [True, False, False]  # type: ignore[attr-defined]
    assert texts(streams["txt"]) == ["", "text", ""]
    assert streams["txt.valid"].records.tolist() == [False, True, True]  # type: ignore[attr-defined]


def test_long_names_and_what_is_no_part_of_a_sample(tmp_path: Path) -> None:
    assert texts(converted(FILES / "long.tar", tmp_path / "a")["__key__"]) == ["k" * 150 + f"/{i}" for i in range(3)]
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        with tarfile.open(
            tmp_path / "x.tar", "w", format=form, pax_headers={"comment": "x"} if form == 2 else {}
        ) as archive:
            for name in ["README", "__meta__", "__x__/y.txt", "._a.jpg", "a", "a.", "d.x/" + "p" * 120 + ".X.CLS"]:
                add(archive, name, b"5")
            folder = tarfile.TarInfo("d.x")
            folder.type = tarfile.DIRTYPE
            archive.addfile(folder)
        streams = converted(tmp_path / "x.tar", tmp_path / f"b{form}")
        assert sorted(streams) == ["__key__", "x.cls"]
        assert texts(streams["__key__"]) == ["d.x/" + "p" * 120]


def test_kinds_of_files_may_be_given(tmp_path: Path) -> None:
    made(tmp_path / "x.tar", [("0.id", b"n01"), ("0.num", b" 17\n"), ("0.cls", b"3"), ("0.npy", npy(np.arange(3)))])
    with pytest.raises(ValueError, match=r"x.tar: sample '0', 'id': expected a decimal number.*found b'n01'; kinds="):
        convert(tmp_path / "x.tar", tmp_path / "refused" / "a")
    streams = converted(
        tmp_path / "x.tar", tmp_path / "b", kinds={"id": "text", "num": "int", "cls": "bytes", "npy": "bytes"}
    )
    assert texts(streams["id"]) == ["n01"]
    assert_holds(streams["num"], np.array([17]))
    assert streams["cls"].records[0].tobytes() == b"3"
    assert streams["npy"].records[0].tobytes() == npy(np.arange(3))


@pytest.mark.parametrize(
    ("files", "options", "text"),
    [
        ([("0.cls", b"")], {}, "sample '0', 'cls': expected a decimal number of 64 bits, found b''"),
        ([("0.cls", str(2**63).encode())], {}, "expected a decimal number of 64 bits"),
        ([("0.cls", b"1_0")], {}, "expected a decimal number of 64 bits"),
        ([("0.txt", b"ok"), ("1.txt", b"\xff")], {}, "sample '1', 'txt': expected text in UTF-8"),
        ([("0.txt", b"\xc3"), ("1.txt", b"\xa9")], {}, "sample '0', 'txt': expected text in UTF-8"),
        ([("0.txt", b""), ("0.TXT", b"")], {}, "sample '0' has two files 'txt'"),
        ([("0.npy", b"\x93NUMPY\x01\x00\x08\x00{nothing")], {}, "'0.npy': a header that can't be understood"),
        ([("0.npy", b"")], {}, "'0.npy': expected an array in NumPy's format"),
        ([("0.npy", "object")], {}, "object|references"),
        ([("0.npy", "short")], {}, "'0.npy': expected 24 bytes of an array"),
        ([("0.npy", "i4"), ("1.npy", "i8")], {}, "files 'npy' hold arrays of .*<i4.* and of .*<i8"),
        (
            [("0.txt", b"")],
            {"kinds": {"txt": "float"}},
            "kinds: expected one of bytes, int, npy, text for 'txt', found 'float'",
        ),
        (
            [("0.txt", b"")],
            {"kinds": {"jpg": "bytes"}},
            r"kinds: expected some of the extensions \['txt'\], found \['jpg'\]",
        ),
        ([("0.txt", b"")], {"nulls": 3}, "nulls: expected"),
        ([("0..", b"")], {}, r"files '\.': a stream is a directory, and can't have the name '\.'"),
        ([("0...", b"")], {}, r"can't have the name '\.\.'"),
        ([("0.txt", b""), ("0.jpg", Special(tarfile.SYMTYPE))], {}, "'0.jpg' is a link; expected regular files"),
        ([("0.txt", b""), ("0.jpg", Special(tarfile.LNKTYPE))], {}, "'0.jpg' is a link; expected regular files"),
        ([("0.txt", b""), ("0.jpg", Special(tarfile.FIFOTYPE))], {}, "'0.jpg' is no regular file"),
    ],
)
def test_what_is_refused(tmp_path: Path, files: Any, options: Any, text: str) -> None:
    arrays = {
        "object": np.array([None]),
        "i4": np.zeros(2, "i4"),
        "i8": np.zeros(2, "i8"),
    }
    contents = []
    for name, content in files:
        if content == "short":
            content = npy(np.arange(3))[:-1]
        elif isinstance(content, str):
            content = npy(arrays[content])
        contents.append((name, content))
    made(tmp_path / "x.tar", contents)
    with pytest.raises((ValueError, TypeError), match=text):
        convert(tmp_path / "x.tar", tmp_path / "out", **options)


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=True)
    return out.getvalue()


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def made(path: Path, files: Sequence[tuple[str, bytes | Special]]) -> None:
    """An archive."""
    with tarfile.open(path, "w") as archive:
        for name, content in files:
            if isinstance(content, Special):
                info = tarfile.TarInfo(name)
                info.type, info.linkname = content.type, "0.txt"
                archive.addfile(info)
            else:
                add(archive, name, content)


@pytest.mark.parametrize("name", ["shard-10.tar", "all.tar.gz"])
def test_damage_is_an_error_that_names_the_file(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes((FILES / name).read_bytes())
    whole = file.read_bytes()
    before = everything(file)
    refused = 0
    for damage in damaged(file, [*flips(whole, 200), *cuts(whole)]):
        try:
            after = everything(file)
        except (ValueError, OSError) as error:
            if name not in str(error):
                raise
            refused += 1
            continue
        # A tar archive has sums of headers alone; and its end is padded.
        assert "changed" in damage or after == before, damage
    assert refused > 40


def everything(file: Path) -> dict[str, list[bytes]]:
    """All streams, as bytes."""
    with source_of(file) as source:
        found = records_from(source, 0, [spec.name for spec in source.streams])
        return {name: [record.tobytes() for record in records] for name, records in found.items()}


def test_headers_that_are_damaged_do_not_end_an_archive(tmp_path: Path) -> None:
    whole = SHARDS[0].read_bytes()
    file = tmp_path / "x.tar"
    names = [at for at in range(0, len(whole), 512) if whole[at + 257 : at + 262] == b"ustar"]
    for at in names[1::7]:
        for offset in (0, 130, 150):
            wrong = bytearray(whole)
            wrong[at + offset] ^= 0x55
            file.write_bytes(wrong)
            with pytest.raises(ValueError, match="x.tar"), source_of(file):
                pass
    begins = [at for at in names if whole[at + 156 : at + 157] == b"x"]
    file.write_bytes(whole[: begins[5]])
    with (
        pytest.raises(ValueError, match="empty block that ends an archive, found the end of the file"),
        source_of(file),
    ):
        pass
    file.write_bytes(whole + whole)
    with pytest.raises(ValueError, match="there is more after the end of the archive"), source_of(file):
        pass


@pytest.mark.parametrize("size", [0, 1, 300, 5000])
def test_pieces_are_gathered_as_a_naive_way_would(size: int) -> None:
    rng = np.random.default_rng(size)
    buffer = rng.integers(0, 256, 20_000).astype(np.uint8)
    sizes = rng.integers(0, size + 1, 50)
    starts = rng.integers(0, 15_000, 50)
    packed = pieces.gathered(buffer, starts, sizes)
    got = np.split(packed.values, packed.offsets[1:-1])
    assert all_same(got, [buffer[a : a + n] for a, n in zip(starts, sizes, strict=True)])
    ends = np.cumsum(sizes)
    assert pieces.gathered(buffer[: ends[-1]], ends - sizes, sizes).values.tolist() == buffer[: ends[-1]].tolist()


def test_what_webdataset_writes_now(tmp_path: Path) -> None:
    wds = needed("webdataset")
    with wds.ShardWriter(str(tmp_path / "s-%d.tar"), maxcount=7, verbose=0) as writer:
        for i in range(20):
            writer.write({"__key__": f"{i:03}", "cls": i, "txt": str(i), "npy": np.full((i % 3, 2), i)})
    streams = converted(tmp_path, tmp_path.parent / f"{tmp_path.name}-out")
    assert texts(streams["__key__"]) == [f"{i:03}" for i in range(20)]
    assert_holds(streams["cls"], np.arange(20))
    assert_holds(streams["npy"], [np.full((i % 3, 2), i) for i in range(20)])
