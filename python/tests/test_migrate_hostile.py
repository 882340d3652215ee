"""Old stores that are damaged, or made to do harm: an error that says where, nothing left, and no more memory than a good one takes."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import old_stores
import pytest
from fixtures import recipe
from fixtures.stores import OLD_META_SIZE, unpacked
from loaderx import CorruptStoreError, DenseDataset, RaggedDataset, ZrecordError, migrate, verify

STORES = [
    ("0.5.0", "images-flate"),
    ("0.9.11", "tokens-zstd"),
    ("0.10.1", "mixed-zstd"),
    ("1.1.3", "images-zstd"),
]


@pytest.fixture(params=STORES, ids=lambda store: "-".join(store))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    version: str = request.param[0]
    name: str = request.param[1]
    return unpacked(version, tmp_path / "old", name) / name


def patched(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def refused(old: Path, message: str, error: type[Exception] = CorruptStoreError, **options: Any) -> None:
    """Migration fails with this message, and leaves nothing."""
    new = old.parents[1] / "new"
    before = sorted(new.parent.iterdir())
    with pytest.raises(error, match=message):
        migrate(old, new, **options)
    assert sorted(new.parent.iterdir()) == before


HEADERS = {
    "begins with": (0, b"ZREX"),
    "expected version 1, 2, 3, found version 9": (4, b"\x09"),
    "has no codec 7": (5, b"\x07"),
    "expected a last chunk below 4096, found 65535": (6, b"\xff\xff"),
    "expected at most 16777216 records, found 4294967295": (12, b"\xff\xff\xff\xff"),
    "expected 268435472 bytes for 16777216 records": (12, struct.pack("<I", 2**24)),
}


@pytest.mark.parametrize("message", HEADERS)
def test_headers(old: Path, message: str) -> None:
    at, content = HEADERS[message]
    patched(old / "meta.zr", at, content)
    refused(old, f"meta.zr: .*{message}")


ENTRIES = {
    "its end within the chunk": (0, b"\xff\xff\xff\xff"),
    "expected a chunk below 1": (12, b"\x01\x00"),
    "a length of at most 1048576": (8, b"\xff\xff\xff\x7f"),
}


@pytest.mark.parametrize("message", ENTRIES)
def test_entries(old: Path, message: str) -> None:
    at, content = ENTRIES[message]
    patched(old / "meta.zr", 16 + 3 * 16 + at, content)
    refused(old, f"meta.zr: record 3: .*{message}.*, found ")


def test_codecs_of_entries(tmp_path: Path) -> None:
    old = unpacked("0.9.11", tmp_path / "old", "images-zstd") / "images-zstd"
    patched(old / "meta.zr", 16 + 14, b"\x03")
    refused(old, "record 0: expected codec 0, 1 or 2, found codec 3")
    patched(old / "meta.zr", 16 + 14, b"\x01")
    refused(old, "record 0: expected fewer bytes stored, being compressed, found codec 1")
    patched(old / "meta.zr", 16 + 14, b"\x00")
    patched(old / "meta.zr", 16 + 16 + 14, b"\x00")
    refused(old, "record 1: expected as many bytes stored as it is long, being raw")
    patched(old / "meta.zr", 16 + 16 + 14, b"\x02")
    refused(old, "dict.zr: missing, and 1 records need it")


def test_cut_and_missing_files(old: Path) -> None:
    whole = old.with_name("whole")
    shutil.copytree(old, whole)
    for name, message in (
        ("meta.zr", r"meta.zr: expected \d+ bytes for"),
        ("0.zr", "record 11: expected its end within"),
    ):
        with (old / name).open("r+b") as file:
            file.truncate(file.seek(0, 2) - 1)
        refused(old, message)
        shutil.copy(whole / name, old / name)
    shutil.move(old / "0.zr", old / "1.zr")
    with (old / "meta.zr").open("r+b") as file:
        file.truncate(OLD_META_SIZE)
    refused(old, "record 0: expected its end within the chunk, found .*chunk 0")


def compressed_records(old: Path) -> list[tuple[int, int, int, int]]:
    """Record, offset, stored length and length of each record that isn't raw."""
    table = (old / "meta.zr").read_bytes()[16:]
    found = [(record, *struct.unpack_from("<III", table, 16 * record)) for record in range(len(table) // 16)]
    return [one for one in found if one[2] != one[3]]


def test_records_that_do_not_decode(old: Path) -> None:
    record, offset, stored, _ = compressed_records(old)[1]
    for damaged in (b"\xff" * stored, b"\x00" * stored):
        patched(old / "0.zr", offset, damaged)
        refused(old, f"{old.name}: record {record}: ")


def test_a_length_that_is_another(old: Path) -> None:
    for record, _, _, length in compressed_records(old):
        for change in (-4, 4):
            patched(old / "meta.zr", 16 + 16 * record + 8, struct.pack("<I", length + change))
            refused(old, f"record {record}: ")
        patched(old / "meta.zr", 16 + 16 * record + 8, struct.pack("<I", length))


def test_each_changed_byte_is_an_error_or_a_sound_store(old: Path, tmp_path: Path) -> None:
    """Old stores have no checksums, so not each change can be noticed; but what comes of it is whole, and nothing is left of the others."""
    for name in ("meta.zr", "0.zr", *(path.name for path in old.glob("schema.*"))):
        content = (old / name).read_bytes()
        for at in range(0, len(content), 1 if len(content) < 200 else 5):
            patched(old / name, at, bytes([content[at] ^ (0xFF if at % 2 else 0x11)]))
            try:
                migrate(old, tmp_path / "new")
            except (ZrecordError, ValueError):
                assert [path.name for path in tmp_path.iterdir()] == ["old"]
            else:
                assert verify(tmp_path / "new").ok
                shutil.rmtree(tmp_path / "new")
            patched(old / name, at, content[at : at + 1])


def test_a_small_store_can_not_be_a_vast_one(tmp_path: Path) -> None:
    """Records in one place, as many as a table holds, would be 16 TiB of copies."""
    bomb = old_stores.deflated(bytes(2**20))
    (tmp_path / "old").mkdir()
    old = tmp_path / "old" / "bomb"
    old.mkdir()
    count = 2**16
    entry = old_stores.ENTRY.pack(0, len(bomb), 2**20, 0, 1, 0)
    (old / "meta.zr").write_bytes(old_stores.HEADER.pack(b"ZREC", 1, 0, 0, len(bomb), count) + entry * count)
    (old / "0.zr").write_bytes(bomb)
    refused(old, f"expected records in {len(bomb)} bytes of chunks, found {len(bomb) * count}")


def test_a_stream_that_is_longer_than_its_record(tmp_path: Path) -> None:
    bomb = old_stores.deflated(bytes(2**26))
    (tmp_path / "old").mkdir()
    old = old_stores.write(tmp_path / "old" / "bomb", [b"x"])
    (old / "0.zr").write_bytes(bomb)
    header = old_stores.HEADER.pack(b"ZREC", 1, 0, 0, len(bomb), 1)
    (old / "meta.zr").write_bytes(header + old_stores.ENTRY.pack(0, len(bomb), 2**20, 0, 1, 0))
    refused(old, "record 0: expected 1048576 bytes, found more")


def test_bytes_behind_a_stream(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    old = old_stores.write(tmp_path / "old" / "behind", [b"a" * 999])
    stored = (old / "0.zr").read_bytes() + b"!"
    (old / "0.zr").write_bytes(stored)
    header = old_stores.HEADER.pack(b"ZREC", 1, 0, 0, len(stored), 1)
    (old / "meta.zr").write_bytes(header + old_stores.ENTRY.pack(0, len(stored), 999, 0, 1, 0))
    refused(old, "record 0: expected a deflate stream of ")


def test_a_dictionary_that_is_none(tmp_path: Path) -> None:
    old = unpacked("0.9.11", tmp_path / "old", "words-zstd_dict") / "words-zstd_dict"
    (old / "dict.zr").write_bytes(b"none")
    refused(old, "dictionary", ZrecordError)
    with (old / "dict.zr").open("r+b") as file:
        file.truncate(2**40)
    refused(old, "dict", ZrecordError)


SCHEMAS: dict[str, Any] = {
    "format = 'loaderx-zrecord'": {"format": "other"},
    "kind = 'dense' or 'ragged'": {"kind": "sparse"},
    "codec = one of": {"codec": "lzma"},
    "codec as str": {"codec": 3},
    "dtype: expected the name": {"dtype": "O"},
    "dtype as str": {"dtype": 7},
    "item_shape": {"item_shape": [-1]},
    "a record has at most": {"item_shape": [2**40]},
    "item_shape: expected an integer": {"item_shape": ["6", 4]},
}


@pytest.mark.parametrize("message", SCHEMAS)
def test_schemas(tmp_path: Path, message: str) -> None:
    old = unpacked("0.9.11", tmp_path / "old", "images-zstd") / "images-zstd"
    schema = msgpack.unpackb((old / "schema.msgpack").read_bytes())
    (old / "schema.msgpack").write_bytes(msgpack.packb(schema | SCHEMAS[message]))
    refused(old, f"schema.msgpack: .*{message}")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b"[" * 100_000, b'{"a": 1' + b"1" * 5000 + b"}"])
def test_schemas_that_are_none(tmp_path: Path, content: bytes) -> None:
    old = unpacked("0.5.0", tmp_path / "old", "images-flate") / "images-flate"
    (old / "schema.json").write_bytes(content)
    refused(old, "schema.json: expected ")
    (old / "schema.json").unlink()
    (old / "schema.msgpack").write_bytes(content)
    refused(old, "schema.msgpack: expected ")


def test_a_schema_as_long_as_a_disk(tmp_path: Path) -> None:
    old = unpacked("0.5.0", tmp_path / "old", "images-flate") / "images-flate"
    with (old / "schema.json").open("r+b") as file:
        file.truncate(2**40)
    refused(old, "expected at most 268435456 bytes")


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    old = unpacked("0.10.1", tmp_path / "old", "mixed-zstd") / "mixed-zstd"
    schema = msgpack.unpackb((old / "schema.msgpack").read_bytes())
    shapes = schema["shapes"]
    for wrong, message in (
        (shapes[:-1], "expected a shape for each of 12 records, found 11"),
        ([[4], *shapes[1:]], "record 0: expected the bytes of its shape, found 12 bytes"),
        ([[2**31, 2**31, 2**31, 0], *shapes[1:]], "record 0: expected the bytes of its shape"),
        ([[1, 1, 1, 1, 1, 1, 1, 3], *shapes[1:]], "record 0: expected at most 7 dimensions"),
        ([["3"], *shapes[1:]], r"shapes\[0\] as a list of dimensions"),
    ):
        (old / "schema.msgpack").write_bytes(msgpack.packb(schema | {"shapes": wrong}))
        refused(old, message)
    migrate(old, tmp_path / "new", item_shape=())
    with RaggedDataset(tmp_path / "new") as dataset:
        assert all(np.array_equal(a, b.reshape(-1)) for a, b in zip(dataset[:], recipe.mixed(), strict=True))


def test_a_schema_without_a_dtype(tmp_path: Path) -> None:
    """0.9 wrote the schema that it was given, and then could not open the store."""
    old = unpacked("0.9.11", tmp_path / "old", "images-zstd") / "images-zstd"
    content = {"mine": 1, "kind": "dense", "format": "loaderx-zrecord", "version": 1, "codec": "zstd"}
    (old / "schema.msgpack").write_bytes(msgpack.packb(content))
    refused(old, "it names no dtype; give dtype= and item_shape=", ValueError)
    refused(old, "it states no shape; give item_shape=", ValueError, dtype="<i2")
    migrate(old, tmp_path / "new", dtype="<i2", item_shape=(6, 4))
    with DenseDataset(tmp_path / "new") as dataset:
        assert np.array_equal(dataset[:], recipe.images())
        assert dataset.metadata == {"mine": 1}


def test_a_schema_of_json_says_what_json_can(tmp_path: Path) -> None:
    old = unpacked("0.5.0", tmp_path / "old", "images-flate") / "images-flate"
    schema = json.loads((old / "schema.json").read_text())
    for key, value in (("shape", [float("inf")]), ("shape", "64"), ("dtype", None), ("codec", ["flate"])):
        (old / "schema.json").write_text(json.dumps(schema | {key: value}))
        refused(old, "schema.json: ", (ZrecordError, ValueError))  # type: ignore[arg-type]
