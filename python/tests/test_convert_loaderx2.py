"""Stores of loaderx 2.8: those that 2.8.19 wrote (`fixtures`), those of a naive writer, and those that nobody should have written."""

from __future__ import annotations

import json
import re
import shutil
import struct
import tempfile
from pathlib import Path
from typing import Any

import loaderx2_stores
import numpy as np
import pytest
from converting import (
    assert_holds,
    begins_everywhere,
    converted,
    cuts,
    damaged,
    flips,
    records_from,
    resumes_everywhere,
    selects,
    small_parts,
    source_of,
    writes_nothing,
)
from fixtures.stores import DENSE, expected, names, unpacked
from hypothesis import given, settings
from hypothesis import strategies as st
from loaderx import DenseDataset, RaggedDataset, Zrecord, ZrecordError, export, migrate, verify
from loaderx.converters import convert
from loaderx.converters.formats import loaderx2_layout, loaderx2_store
from loaderx.dataset import MSDataset
from loaderx.zrecord import CorruptStoreError
from support import Array, all_same, unchanged

VERSION = "2.8.19"
STORES = names(VERSION)


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    return unpacked(VERSION, tmp_path / "stores")


def records_of(name: str) -> Any:
    return np.array(expected(name)) if name.startswith(DENSE) else expected(name)


@pytest.mark.parametrize("name", STORES)
def test_what_it_wrote_is_converted(stores: Path, tmp_path: Path, name: str) -> None:
    records = records_of(name)
    with unchanged(stores):
        for codec in ("raw", "zstd"):
            stream = converted(stores / name, tmp_path / codec, codec=codec)[""]
            assert stream.kind == ("dense" if name.startswith(DENSE) else "ragged")
            assert_holds(stream, records, records[0].dtype)
            assert verify(tmp_path / codec).ok


@pytest.mark.parametrize("name", STORES)
def test_it_goes_on_from_anywhere(stores: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch, 60)
    begins_everywhere(stores / name)
    assert resumes_everywhere(stores / name, tmp_path, most=3) > 1


def test_a_directory_of_stores_is_one_of_streams(stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    several = together(stores, tmp_path, "images-raw", "labels-zstd", "tokens-zstd", "skeletons-raw")
    selects(several, tmp_path / "selected")
    streams = converted(several, tmp_path / "all")
    for name, stream in streams.items():
        assert_holds(stream, records_of(name))
    small_parts(monkeypatch, 400)
    begins_everywhere(several)
    resumes_everywhere(several, tmp_path, most=3)
    said = writes_nothing(several, tmp_path)
    assert re.search(
        r"loaderx 2\.8.*12 records.*\n.*images-raw: dense \(6, 4\) '<i2', zstd, from dense '<i2', raw", said
    )
    assert "skeletons-raw: ragged '<f4', zstd, from ragged, 3-dimensional '<f4', raw" in said


def test_streams_of_unequal_length(stores: Path, tmp_path: Path) -> None:
    several = together(stores, tmp_path, "images-raw", "words-raw")
    with pytest.raises(ZrecordError, match=r"equal length, found \{'images-raw': 12, 'words-raw': 200\}"):
        convert(several, tmp_path / "new")


def test_several_at_once(stores: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="found 2 .*one after another"):
        convert([stores / "images-raw", stores / "images-zstd"], tmp_path / "new")


def together(stores: Path, tmp_path: Path, *chosen: str) -> Path:
    for name in chosen:
        shutil.copytree(stores / name, tmp_path / "together" / name)
    return tmp_path / "together"


@pytest.mark.parametrize("name", ["images-raw", "tokens-zstd", "words-zstd_dict"])
def test_opening_one_says_what_it_is(stores: Path, tmp_path: Path, name: str) -> None:
    store = stores / name
    text = rf"{re.escape(str(store))} is a store of loaderx 2, .*loaderx\.convert\("
    with unchanged(stores):
        for kind in (DenseDataset, RaggedDataset, Zrecord):
            for options in ({}, {"read_only": True}):
                with pytest.raises(ZrecordError, match=text):
                    kind(store, **options)  # type: ignore[arg-type]
        for function in (
            verify,
            lambda path: migrate(path, tmp_path / "new"),
            lambda path: export(path, tmp_path / "new"),
        ):
            with pytest.raises(ZrecordError, match=text):
                function(store)
        with pytest.raises(ZrecordError, match=r"loaderx\.convert\("):
            MSDataset(stores, names=[name])
    assert not (tmp_path / "new").exists()


SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)
NAMES = [*loaderx2_layout.PLAIN, "bfloat16", "float8_e4m3fn", "float8_e8m0fnu"]


@st.composite
def written(draw: st.DrawFn) -> tuple[Any, str, dict[str, Any], dict[str, Any]]:
    """Records of one dtype, dense or ragged, and how they are stored."""
    name = draw(st.sampled_from(NAMES))
    if name not in loaderx2_layout.PLAIN:
        pytest.importorskip("ml_dtypes")
    dtype = loaderx2_layout.dtype_of(name)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    count = draw(st.integers(0, 20))

    def record(shape: tuple[int, ...]) -> Array:
        values = rng.integers(0, 2 if name == "bool" else 250, (*shape, dtype.itemsize), np.uint8)
        return values.reshape(-1).view(dtype).reshape(shape)

    how = {
        "codec": draw(st.sampled_from(["raw", "zstd"])),
        "shards": draw(st.sampled_from([1, 2, 3, 4, 7, 255])),
        "gap": draw(st.sampled_from([0, 0, 3])),
    }
    if draw(st.booleans()):
        shape = draw(SHAPES)
        rows = np.array([record(shape) for _ in range(count)], dtype).reshape(count, *shape)
        return rows, name, {"item_shape": list(shape)}, how
    rank = draw(st.integers(1, 7))
    shapes = draw(st.lists(st.lists(st.integers(1, 3), min_size=rank, max_size=rank), min_size=count, max_size=count))
    return [record(tuple(shape)) for shape in shapes], name, {"ndim": rank}, how


@settings(max_examples=60)
@given(written())
def test_any_store_is_converted(case: Any) -> None:
    records, name, shape, how = case
    with tempfile.TemporaryDirectory() as folder:
        old = loaderx2_stores.write(Path(folder) / "old", records, name, shape, **how)
        stream = converted(old, Path(folder) / "new")[""]
    assert_holds(stream, records, loaderx2_layout.dtype_of(name))
    assert stream.item_shape == (tuple(shape["item_shape"]) if "item_shape" in shape else None)


def test_records_with_a_dictionary(tmp_path: Path, dictionary: bytes) -> None:
    rows = np.random.default_rng(0).integers(0, 9, (50, 8, 8), np.uint8)
    old = loaderx2_stores.write(
        tmp_path / "old", rows, "uint8", {"item_shape": [8, 8]}, codec="zstd_dict", dictionary=dictionary
    )
    new = tmp_path / "new"
    assert_holds(converted(old, new, codec="zstd_dict", dict_bytes=dictionary)[""], rows)
    (old / "dict.zr").write_bytes(b"none")
    with pytest.raises(CorruptStoreError, match=r"dict\.zr: .*no zstd dictionary"):
        convert(old, tmp_path / "other")
    (old / "dict.zr").unlink()
    with pytest.raises(FileNotFoundError, match=r"dict\.zr"):
        convert(old, tmp_path / "other")


def test_tables_longer_than_a_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(1000, dtype=np.int16)
    old = loaderx2_stores.write(tmp_path / "old", rows, "int16", {"item_shape": []}, shards=3)
    monkeypatch.setattr(loaderx2_store, "WINDOW", 64)
    begins_everywhere(old, most=9)
    assert_holds(converted(old, tmp_path / "new")[""], rows)


@pytest.mark.parametrize("name", ["images-raw", "tokens-zstd", "words-zstd_dict", "skeletons-raw"])
def test_no_damage_passes_but_in_raw_bytes(stores: Path, name: str) -> None:
    """Nothing has a checksum there: what zstd doesn't notice, and changed bytes of raw records, nobody can."""
    sound, refused = read_all(stores / name), 0
    for file in sorted((stores / name).iterdir()):
        content = file.read_bytes()
        for what in damaged(file, [*cuts(content), *flips(content[:2100], 100), *flips(content, 200)]):
            try:
                records = read_all(stores / name)
            except (ZrecordError, OSError) as caught:
                refused += 1
                error = str(caught)
            else:
                # A dictionary that lacks its end is another dictionary, of the same name.
                assert "cut" not in what or file.name == "dict.zr", (file, what)
                assert file.name != "meta.zr" or all_same(records, sound), what
                continue
            assert str(stores / name) in error, (what, error)
    assert refused > 100


def read_all(store: Path) -> list[Array]:
    """What a conversion would write."""
    with source_of(store) as source:
        return records_from(source, 0, [""])[""]


HEADERS: list[tuple[str, int, bytes, str]] = [
    ("codec", 11, b"\x03", "found codec 3"),
    ("no data files", 10, b"\x00", "0 data files"),
    ("reserved", 12, b"\x01", "1 in reserved bytes"),
    ("more records", 0, b"\x0d", "expected 4304 bytes for 13 records, found 4288"),
    ("fewer records", 0, b"\x0b", "expected 4272 bytes for 11 records, found 4288"),
    ("vastly more records", 0, b"\xff" * 8, "expected .* bytes for 18446744073709551615 records, found 4288"),
    ("no records", 0, b"\x00", "never closed"),
    ("a longer file", 16, b"\xff\xff", r"data_0\.zr: expected 65535 bytes, found 144"),
    ("a file too many", 2048, b"\x01", "found codec 0, 4 data files"),
    ("another dtype", 2068, b"u", "schema: expected the name of a dtype, such as 'float32', found 'iut16'"),
    ("no JSON", 2056, b"!", "expected a schema in JSON"),
    ("offset", 4096 + 7, b"\x80", "record 0: expected its end within its data file"),
    ("offset that wraps", 4096, b"\xff" * 8, "record 0: expected its end within its data file"),
    (
        "where another one is",
        4096 + 4 * 16,
        b"\x00",
        "record 4: expected a place behind the record before it, found offset 0",
    ),
    ("stored", 4096 + 16 + 8, b"\x2f", "record 1: expected as many bytes stored as it is long, being raw"),
    ("length", 4096 + 16 + 12, b"\x2f", "record 1: expected 48 bytes, as the schema has it"),
]


@pytest.mark.parametrize(("what", "at", "content", "text"), HEADERS, ids=[header[0] for header in HEADERS])
def test_what_can_not_be_right_is_named(
    stores: Path, tmp_path: Path, what: str, at: int, content: bytes, text: str
) -> None:
    meta = stores / "images-raw" / "meta.zr"
    changed = bytearray(meta.read_bytes())
    changed[at : at + len(content)] = content
    meta.write_bytes(changed)
    with pytest.raises(CorruptStoreError, match=text):
        convert(stores / "images-raw", tmp_path / "new", dry_run=True)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ([1], "expected a map as schema"),
        ({"dtype": "uint8"}, "'item_shape' or 'ndim'"),
        ({"dtype": "uint8", "ndim": 0}, "'item_shape' or 'ndim'"),
        ({"dtype": "uint8", "ndim": True}, "'item_shape' or 'ndim'"),
        ({"dtype": "uint8", "ndim": 8}, "8 dimensions.*at most 7"),
        ({"dtype": "uint8", "item_shape": [-1]}, "item_shape"),
        ({"dtype": "uint8", "item_shape": "12"}, "item_shape"),
        ({"dtype": "uint8", "item_shape": [1 << 40]}, "a record has at most"),
        ({"dtype": "uint8", "ndim": 1, "item_shape": []}, "'item_shape' or 'ndim'"),
        ({"dtype": "O", "ndim": 1}, "name of a dtype"),
        ({"dtype": ["uint8"], "ndim": 1}, "name of a dtype"),
    ],
)
def test_schemas_that_are_none(tmp_path: Path, schema: Any, text: str) -> None:
    old = loaderx2_stores.write(tmp_path / "old", [], "uint8", {"ndim": 1})
    encoded = json.dumps(schema).encode()
    content = bytearray((old / "meta.zr").read_bytes())
    content[8:10] = struct.pack("<H", len(encoded))
    content[2056 : 2056 + len(encoded)] = encoded
    (old / "meta.zr").write_bytes(content)
    with pytest.raises(CorruptStoreError, match=text):
        convert(old, tmp_path / "new")


def test_a_shape_that_its_items_do_not_have(tmp_path: Path) -> None:
    old = loaderx2_stores.write(tmp_path / "old", [np.zeros((2, 3), np.int32)] * 5, "int32", {"ndim": 2}, shards=1)
    content = bytearray((old / "data_0.zr").read_bytes())
    for shape in ((3, 3), (0, 6), (2**32 - 1, 2**32 - 1), (2**31, 2**31)):
        content[2 * 32 : 2 * 32 + 8] = np.array(shape, "<u4").tobytes()
        (old / "data_0.zr").write_bytes(content)
        with pytest.raises(
            CorruptStoreError, match=rf"record 2: expected 6 items, found shape \({shape[0]}, {shape[1]}\)"
        ):
            convert(old, tmp_path / "new", restart=True)


def test_a_frame_that_would_be_vast(tmp_path: Path) -> None:
    """A forged length is refused before memory is taken for it."""
    old = loaderx2_stores.write(tmp_path / "old", [np.zeros(9, np.uint8)], "uint8", {"ndim": 1}, codec="zstd", shards=1)
    content = bytearray((old / "meta.zr").read_bytes())
    content[4096 + 12 : 4096 + 16] = struct.pack("<I", 2**31)
    (old / "meta.zr").write_bytes(content)
    with pytest.raises(CorruptStoreError, match="record 0: expected what zstd can have made of it"):
        convert(old, tmp_path / "new")


def test_a_store_that_is_cut_meanwhile(stores: Path, tmp_path: Path) -> None:
    container = loaderx2_store.Container(stores / "images-raw")
    entries = container.entries(0, 12)
    (stores / "images-raw" / "data_2.zr").write_bytes(b"")
    with pytest.raises(CorruptStoreError, match=r"data_2\.zr: it was cut while it was read"):
        container.read(0, entries)
