"""Stores that loaderx 2.8.19 writes now, in its own environment, and whether the fixtures are what it writes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import assert_holds, converted
from fixtures import make
from fixtures.stores import DENSE, expected, names, unpacked
from loaderx.converters import convert
from loaderx.converters.formats.loaderx2_layout import dtype_of
from loaderx.zrecord import CorruptStoreError
from support import Array

VERSION = "2.8.19"
SEED, COUNT = 7, 300

WRITE = """
import json, sys
from pathlib import Path
import numpy as np
from loaderx import dtypes
from loaderx.zrecord import DenseWriter, RaggedBatch, RaggedWriter

folder, names, shapes = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
for name in names:
    dtype = getattr(dtypes, name)
    rows = np.fromfile(folder / f"{name}.bits", np.uint8).view(dtype).reshape(-1, 2, 3)
    for codec, shards in (("raw", 4), ("zstd", 3)):
        with DenseWriter(folder / f"dense-{name}-{codec}", dtype, (2, 3), codec=codec, data_shards=shards) as writer:
            for part in np.split(rows, [1, 3, 200]):
                writer.append(part.copy())
        with RaggedWriter(folder / f"ragged-{name}-{codec}", dtype, 2, codec=codec, data_shards=shards) as writer:
            flat, at = rows.reshape(-1), 0
            records = []
            for shape in shapes:
                records.append(flat[at : at + shape[0] * shape[1]].reshape(shape).copy())
                at += shape[0] * shape[1]
            writer.append(RaggedBatch.from_records(records[:1]))
            writer.append(RaggedBatch.from_records(records[1:]))
for name in json.loads(sys.argv[4]):
    # From NumPy's arrays it takes these only with NumPy 2.5.
    with DenseWriter(folder / f"empty-{name}", getattr(dtypes, name), (2,), codec="raw") as writer:
        pass
with DenseWriter(folder / "empty", np.int32, (3,), codec="raw") as writer:
    pass
with DenseWriter(folder / "deep", np.int8, (1,) * 20, codec="raw") as writer:
    writer.append(np.zeros((2, *(1,) * 20), np.int8))
with RaggedWriter(folder / "example", np.int16, 1, codec="raw", data_shards=2) as writer:
    writer.append(RaggedBatch.from_records([np.array(record, np.int16) for record in ([1], [2, 3], [4])]))
unclosed = DenseWriter(folder / "unclosed", np.int32, (3,), codec="raw")
unclosed.append(np.zeros((5, 3), np.int32))
import os
os._exit(0)
"""
NAMES = (
    *(
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    ),
    *("complex64", "complex128"),
)
OTHERS = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
"""Of `ml_dtypes`."""
SHAPES = [(1 + i % 3, 1 + i % 5) for i in range(COUNT)]


@pytest.fixture(scope="module")
def release(peer: Callable[..., Path]) -> Path:
    return peer(*make.requirements(VERSION))


@pytest.fixture(scope="module")
def written(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    make.write(release, VERSION, folder)
    return folder


@pytest.fixture(scope="module")
def of_each_dtype(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dtypes")
    for name in NAMES:
        bits(name).tofile(folder / f"{name}.bits")
    arguments = [json.dumps(value) for value in (NAMES, SHAPES, OTHERS)]
    subprocess.run([release, "-I", "-c", WRITE, folder, *arguments], check=True, timeout=100)
    return folder


def bits(name: str) -> Array:
    """Any bits, of so many records of (2, 3); NaNs among them."""
    rng = np.random.default_rng(SEED)
    width = 16 if name == "complex128" else 8
    return rng.integers(0, 2 if name == "bool" else 256, COUNT * 6 * width, np.uint8)


def test_the_fixtures_are_what_it_writes(written: Path, tmp_path: Path) -> None:
    kept = unpacked(VERSION, tmp_path)
    assert sorted(path.name for path in written.iterdir()) == names(VERSION)
    for name in names(VERSION):
        files = {file.name: file.read_bytes() for file in (written / name).iterdir()}
        assert files == {file.name: file.read_bytes() for file in (kept / name).iterdir()}, name


def test_what_it_writes_now_is_converted(written: Path, tmp_path: Path) -> None:
    for name in names(VERSION):
        records: Any = np.array(expected(name)) if name.startswith(DENSE) else expected(name)
        assert_holds(converted(written / name, tmp_path / name)[""], records)


@pytest.mark.parametrize("name", NAMES)
def test_each_dtype_that_it_has(of_each_dtype: Path, tmp_path: Path, name: str) -> None:
    dtype = dtype_of(name)
    rows = bits(name).view(dtype).reshape(-1, 2, 3)
    ends = np.cumsum([a * b for a, b in SHAPES])
    flat = rows.reshape(-1)
    records = [flat[end - a * b : end].reshape(a, b) for end, (a, b) in zip(ends.tolist(), SHAPES, strict=True)]
    for codec in ("raw", "zstd"):
        assert_holds(converted(of_each_dtype / f"dense-{name}-{codec}", tmp_path / f"dense-{codec}")[""], rows, dtype)
        assert_holds(
            converted(of_each_dtype / f"ragged-{name}-{codec}", tmp_path / f"ragged-{codec}")[""], records, dtype
        )


@pytest.mark.parametrize("name", OTHERS)
def test_each_dtype_of_ml_dtypes(of_each_dtype: Path, tmp_path: Path, name: str) -> None:
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))
    assert_holds(converted(of_each_dtype / f"empty-{name}", tmp_path / "new")[""], np.zeros((0, 2), dtype), dtype)


def test_the_worked_example(of_each_dtype: Path) -> None:
    """The hex of `docs/exchange.md` is what the release writes."""
    text = (Path(__file__).parents[3] / "docs" / "exchange.md").read_text()
    shown = {name: bytes.fromhex(dump) for name, dump in re.findall(r"```hex 2\.8 ([^\n]+)\n(.*?)```", text, re.DOTALL)}
    files = {file.name: file.read_bytes() for file in (of_each_dtype / "example").iterdir()}
    assert shown.pop("table") == files.pop("meta.zr")[4096:]
    assert shown == files


def test_a_store_without_records(of_each_dtype: Path, tmp_path: Path) -> None:
    assert_holds(converted(of_each_dtype / "empty", tmp_path / "new")[""], np.zeros((0, 3), np.int32), np.int32)


def test_many_dimensions(of_each_dtype: Path, tmp_path: Path) -> None:
    assert_holds(converted(of_each_dtype / "deep", tmp_path / "new")[""], np.zeros((2, *(1,) * 20), np.int8))


def test_one_that_was_never_closed(of_each_dtype: Path, tmp_path: Path) -> None:
    with pytest.raises(CorruptStoreError, match="never closed"):
        convert(of_each_dtype / "unclosed", tmp_path / "new")
