"""Out of stores and in again: what comes back is what was there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import converted, needed, read_all, small_parts, stored
from dtype_samples import DTYPES, bits, random_array
from hypothesis import given, settings
from hypothesis import strategies as st
from loaderx.converters import convert
from loaderx.converters.outward import to_arrow, to_hf, to_numpy
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.dataset.dtypes import storable
from support import Array, same


@pytest.fixture
def root(memory: Path) -> Path:
    """Streams of several kinds, 300 records."""
    number = np.arange(300)
    with DenseDataset(memory / "in/image", np.uint8, (2, 3), schema={"unit": "K"}) as ds:
        ds.append((number[:, None, None] * np.ones((2, 3), int)).astype(np.uint8))
    with DenseDataset(memory / "in/label", np.int64, (), schema={"classes": ["cat", "dog"]}) as ds:
        ds.append(number % 2)
    with RaggedDataset(memory / "in/tokens", np.int32) as ragged:
        ragged.append([np.arange(i % 5, dtype=np.int32) for i in range(300)])
    with RaggedDataset(memory / "in/text", np.uint8, schema={"text": "utf-8"}) as ragged:
        ragged.append([np.frombuffer(("é" * (i % 3)).encode(), np.uint8) for i in range(300)])
    with RaggedDataset(memory / "in/blob", np.uint8) as ragged:
        ragged.append([bytes([i % 256] * (i % 4)) for i in range(300)])
    with RaggedDataset(memory / "in/points", np.float32) as ragged:
        ragged.append([np.full((i % 3, 2), i, np.float32) for i in range(300)])
    with DenseDataset(memory / "in/when", "M8[us]", ()) as ds:
        ds.append(np.where(number % 7, number.astype("M8[us]"), np.datetime64("NaT", "us")))
    return memory / "in"


def assert_same(one: Path, other: Path, but: tuple[str, ...] = ()) -> None:
    first, second = stored(one), stored(other)
    assert list(first) == list(second)
    for name, a in first.items():
        b = second[name]
        assert (a.kind, a.dtype, a.item_shape) == (b.kind, b.dtype, b.item_shape), name
        assert a.metadata == b.metadata or name in but, name
        for x, y in zip(a.records, b.records, strict=True):
            assert same(x, y), name


def test_arrow_and_back(memory: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pa = needed("pyarrow")
    with MSDataset(root) as ds:
        table = to_arrow(ds)
        assert table.num_rows == 300
        assert table["text"].to_pylist()[:3] == ["", "é", "éé"]
        assert table["when"].null_count == 43
        assert table["image"].type == pa.list_(pa.list_(pa.uint8(), 3), 2)
        small_parts(monkeypatch, 2000)
        reader = to_arrow(ds, reader=True)
        batches = list(reader)
        assert max(batch.num_rows for batch in batches) < 100
        assert pa.Table.from_batches(batches).equals(table.combine_chunks())
        assert to_arrow(ds, ["text", "label"]).column_names == ["text", "label"]
        convert(to_arrow(ds, reader=True), memory / "out")
    assert_same(root, memory / "out")


@pytest.mark.parametrize("way", ["parquet", "feather"])
def test_files_and_back(memory: Path, root: Path, way: str) -> None:
    needed("pyarrow")
    table = to_arrow(MSDataset(root))
    path = memory / f"in.{way}"
    if way == "parquet":
        needed("pyarrow.parquet").write_table(table, path)
    else:
        needed("pyarrow.feather").write_feather(table, path)
    convert(path, memory / "out", check=True)
    assert_same(root, memory / "out")


@pytest.mark.parametrize("mapped", [False, True])
def test_hf_and_back(memory: Path, root: Path, mapped: bool) -> None:
    datasets = needed("datasets")
    with MSDataset(root) as ds:
        found = to_hf(ds, memory / "in.arrow") if mapped else to_hf(ds)
        if mapped:
            with pytest.raises(FileExistsError):
                to_hf(ds, memory / "in.arrow")
    assert found.features["label"] == datasets.ClassLabel(names=["cat", "dog"])
    assert found[4]["text"] == "é"
    assert found[3]["tokens"] == [0, 1, 2]
    assert np.array_equal(found[5]["image"], np.full((2, 3), 5))
    converted(found, memory / "out", nulls="nan")
    assert_same(root, memory / "out", but=("image",))  # features have no place for metadata


@settings(max_examples=40)
@given(dtype=DTYPES, shape=st.lists(st.integers(0, 3), max_size=3), count=st.integers(1, 9), seed=st.integers(0, 99))
def test_arrow_of_every_dtype(
    dtype: Any, shape: list[int], count: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    needed("pyarrow")
    array = random_array(storable(dtype), (count, *shape), seed)
    path = tmp_path_factory.mktemp("out")
    with DenseDataset(path / "dense", array.dtype, tuple(shape), "raw") as ds:
        ds.append(array)
        table = to_arrow(ds)
    with RaggedDataset(path / "ragged", array.dtype, "raw") as ragged:
        ragged.append([array.reshape(-1)[:at] for at in range(3)])
        other = to_arrow(ragged)
    found: Array = np.concatenate([bytes_of(one) for one in read_all(table)["value"]])
    assert found.tobytes() == bits(array) or has_padding(array.dtype)
    records = read_all(other)["value"]
    assert [bits(one) for one in records] == [bits(array.reshape(-1)[:at]) for at in range(3)]


def bytes_of(one: Array) -> Array:
    return np.frombuffer(bits(np.atleast_1d(one)), np.uint8)


def has_padding(dtype: Any) -> bool:
    """A record of a structure loses what lies between its fields when NumPy takes it out of an array."""
    return dtype.names is not None


def test_numpy(memory: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_parts(monkeypatch, 300)
    with MSDataset(root) as ds:
        image, tokens = ds["image"], ds["tokens"]
        assert isinstance(image, DenseDataset)
        assert isinstance(tokens, RaggedDataset)
        assert same(to_numpy(image), image[:])
        assert to_numpy(image, memory / "image.npy") == memory / "image.npy"
        assert same(np.load(memory / "image.npy"), image[:])
        with pytest.raises(FileExistsError):
            to_numpy(image, memory / "image.npy")
        packed = to_numpy(tokens)
        assert same(packed.values, np.concatenate(tokens[:]))
        with pytest.raises(TypeError, match="has one array"):
            to_numpy(tokens, memory / "tokens.npy")  # type: ignore[call-overload]
        with pytest.raises(TypeError, match="expected a DenseDataset or a RaggedDataset, found MSDataset"):
            to_numpy(ds)  # type: ignore[call-overload]
    convert(memory / "image.npy", memory / "back")
    assert same(stored(memory / "back")[""].records, np.load(memory / "image.npy"))
    with (
        DenseDataset(memory / "bf", "bfloat16", ()) as narrow,
        pytest.raises(ValueError, match="has no name for dtype"),
    ):
        to_numpy(narrow, memory / "bf.npy")
    assert not [file for file in memory.iterdir() if file.name.endswith(".tmp")]


@settings(max_examples=25)
@given(dtype=DTYPES, shape=st.lists(st.integers(0, 3), max_size=2), count=st.integers(0, 5), seed=st.integers(0, 99))
def test_npy_of_every_dtype(
    dtype: Any, shape: list[int], count: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    array = random_array(storable(dtype), (count, *shape), seed)
    path = tmp_path_factory.mktemp("out")
    with DenseDataset(path / "in", array.dtype, tuple(shape), "raw") as ds:
        if count:
            ds.append(array)
        try:
            to_numpy(ds, path / "in.npy")
        except ValueError as error:
            assert "has no name for dtype" in str(error)  # noqa: PT017
            return
    loaded = np.load(path / "in.npy")
    assert loaded.dtype == array.dtype
    assert bits(loaded) == bits(array)


@pytest.mark.parametrize(
    "dtype", [[("\u0100", "?"), ("b", "<i4")], [("\xe9", ">f8")], {"names": ["x"], "formats": ["i2"], "offsets": [3]}]
)
def test_npy_of_structures(memory: Path, dtype: Any) -> None:
    """Also with names that are not Latin-1, and with gaps."""
    array = random_array(storable(np.dtype(dtype)), (5,), 1)
    with DenseDataset(memory / "in", array.dtype, ()) as ds:
        ds.append(array)
        to_numpy(ds, memory / "out.npy")
    loaded = np.load(memory / "out.npy")
    assert loaded.dtype == array.dtype
    assert loaded.tolist() == array.tolist()


def test_what_is_refused(memory: Path, root: Path) -> None:
    needed("pyarrow")
    with MSDataset(root) as ds:
        with pytest.raises(ValueError, match=r"columns: expected some of .*found \['z'\]"):
            to_arrow(ds, ["z"])
        with pytest.raises(ValueError, match="columns: this is one store"):
            to_arrow(ds["label"], ["label"])
    with pytest.raises(TypeError, match="found dict"):
        to_arrow({})  # type: ignore[arg-type]
    with RaggedDataset(memory / "mixed", np.int8) as ragged:
        ragged.append([np.zeros((2, 3), np.int8), np.zeros((2, 4), np.int8)])
        with pytest.raises(
            ValueError, match=r"record 1: its shape \(2, 4\) does not fit a column of lists; expected \(k, 3\)"
        ):
            to_arrow(ragged)
    with RaggedDataset(memory / "text", np.uint8, schema={"text": "utf-8"}) as ragged:
        ragged.append([b"ok", b"\xff"])
        with pytest.raises(ValueError, match="record 1: it is said to be text, and is no UTF-8"):
            to_arrow(ragged)


def test_without_the_packages(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyarrow", "datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    with MSDataset(root) as ds:
        with pytest.raises(ImportError, match="to_arrow needs the package pyarrow: pip install pyarrow"):
            to_arrow(ds)
        with pytest.raises(ImportError, match="to_hf needs the package datasets: pip install datasets"):
            to_hf(ds)


def test_notes_that_lie(memory: Path) -> None:
    import json

    pa = needed("pyarrow")
    for note, match in (
        ({"x": {"dtype": "<f4", "metadata": {}}}, "loaderx noted dtype '<f4', and its values are '<i8'"),
        ({"x": {"dtype": "|O", "metadata": {}}}, "what loaderx noted of it can't be understood"),
        ({"x": 3}, "what loaderx noted of it can't be understood"),
        ({"x": {"dtype": "<i8", "metadata": {"dtype": 3}}}, "can't be understood"),
    ):
        table = pa.table({"x": [1]}).replace_schema_metadata({"loaderx": json.dumps(note)})
        with pytest.raises(ValueError, match=match):
            convert(table, memory / "out")
    for nothing in ("[", "[]"):
        read_all(pa.table({"x": [1]}).replace_schema_metadata({"loaderx": nothing}))
