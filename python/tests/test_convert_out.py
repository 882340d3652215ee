"""Out of stores and in again: what comes back is what was there."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converting import converted, needed, read_all, small_parts, stored
from dtype_samples import DTYPES, bits, random_array
from hypothesis import given, settings
from hypothesis import strategies as st
from loaderx.converters import convert
from loaderx.converters.outward import reading, to_arrow, to_hf, to_numpy
from loaderx.dataset import DenseDataset, MSDataset, Packed, RaggedDataset
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
        assert wholes(a.records) == wholes(b.records), name


def wholes(records: Array | Sequence[Array]) -> list[tuple[tuple[int, ...], bytes]]:
    """Shapes and bits, with those between the fields of structures."""
    arrays = [records] if isinstance(records, np.ndarray) else records
    return [(array.shape, bits(array)) for array in arrays]


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
@given(
    dtype=DTYPES,
    shape=st.lists(st.integers(0, 3), max_size=3),
    count=st.integers(1, 9),
    seed=st.integers(0, 99),
    part=st.sampled_from([200, 8 << 20]),
)
def test_arrow_of_every_dtype(
    dtype: Any, shape: list[int], count: int, seed: int, part: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """To the bit, also those between fields."""
    needed("pyarrow")
    array = random_array(storable(dtype), (count, *shape), seed)
    path = tmp_path_factory.mktemp("out")
    lists = [array.reshape(-1)[: at % 4] for at in range(count)]
    nested = [array[: at % 4] for at in range(count)]
    written(path / "in", array.dtype, {"dense": array, "lists": lists, "nested": nested})
    with pytest.MonkeyPatch.context() as patch, MSDataset(path / "in") as ds:
        small_parts(patch, part)
        convert(to_arrow(ds, reader=True), path / "out")
    assert_same(path / "in", path / "out")
    found = stored(path / "out")
    assert (found["dense"].kind, found["dense"].dtype, found["dense"].item_shape) == ("dense", dtype, tuple(shape))
    assert wholes(found["dense"].records) == wholes(array)
    for name, records in (("lists", lists), ("nested", nested)):
        assert (found[name].kind, found[name].dtype) == ("ragged", dtype)
        assert wholes(found[name].records) == wholes(records), name


def written(path: Path, dtype: Any, streams: dict[str, Array | list[Array]]) -> None:
    """Streams of one dtype: dense where it is an array, ragged of a list."""
    for name, records in streams.items():
        if isinstance(records, list):
            with RaggedDataset(path / name, dtype, "raw") as ragged:
                ragged.append(records)
        else:
            with DenseDataset(path / name, dtype, records.shape[1:], "raw") as dense:
                dense.append(records)


@pytest.mark.parametrize("way", ["table", "parquet", "feather"])
@pytest.mark.parametrize("dtype", ["<M8[us]", ">m8[ns]", "<M8[D]", "<m8[25ms]"])
def test_nat_inside_of_records(memory: Path, dtype: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needed("pyarrow")
    small_parts(monkeypatch, 200)
    times = random_array(np.dtype(dtype), (40,), 3)
    times[[9, 10, 30]] = "NaT"
    streams: dict[str, Array | list[Array]] = {
        "pair": times.reshape(20, 2),
        "grid": np.repeat(times[:20], 6).reshape(20, 2, 3),
        "nothing": np.full((20, 2), "NaT", dtype),
        "list": [times[at : at + at % 3] for at in range(20)],
        "pairs": [times[at : at + 2 * (at % 3)].reshape(-1, 2) for at in range(20)],
        "scalar": times[:20],
    }
    written(memory / "in", dtype, streams)
    fields = np.dtype([("at", dtype), ("both", dtype, (2,)), ("deep", [("n", "u1"), ("at", dtype)])])
    written(
        memory / "in", fields, {"fields": random_array(fields, (20,), 1), "bags": [random_array(fields, (5,), 2)] * 20}
    )
    with MSDataset(memory / "in") as ds:
        table = to_arrow(ds)
    native = dtype[1:] in ("M8[us]", "m8[ns]")
    assert needed("pyarrow.compute").list_flatten(table["pair"]).null_count == (4 if native else 0)
    src: Any = table if way == "table" else memory / f"in.{way}"
    if way == "parquet":
        needed("pyarrow.parquet").write_table(table, src)
    elif way == "feather":
        needed("pyarrow.feather").write_feather(table, src)
    found = converted(src, memory / "out")
    assert_same(memory / "in", memory / "out")
    assert np.isnat(found["pair"].records).sum() == 4
    assert np.isnat(np.concatenate(found["list"].records)).any()
    assert np.isnat(found["fields"].records["deep"]["at"]).any()  # type: ignore[call-overload]
    masked = converted(src, memory / "masked", nulls="mask")
    assert wholes(masked["pair"].records) == wholes(found["pair"].records)
    assert masked["pair.valid"].records.all()  # type: ignore[attr-defined]


def test_nulls_that_are_no_nat(memory: Path) -> None:
    pa = needed("pyarrow")
    stamp, note = pa.timestamp("us"), "<M8[us]"
    for values, arrow, dtype in (
        ([[1, None]], pa.list_(pa.int64(), 2), "<i8"),
        ([[1, None]], pa.list_(pa.int64()), "<i8"),
        ([[1, None]], pa.list_(stamp, 2), None),
        ([[1, None]], pa.list_(stamp), None),
        ([[[1, 2], None]], pa.list_(pa.list_(stamp, 2), 2), note),
        ([[[1, 2], None]], pa.list_(pa.list_(stamp, 2)), note),
        ([[b"12345678", None]], pa.list_(pa.binary(8), 2), "<M8[D]"),
    ):
        table = pa.table({"x": pa.array(values, arrow)})
        if dtype is not None:
            table = table.replace_schema_metadata({"loaderx": json.dumps({"x": {"dtype": dtype, "metadata": {}}})})
        for nulls in ("refuse", "mask", "nan"):
            with pytest.raises(ValueError, match="column 'x', record 0: a null inside of it"):
                convert(table, memory / "out", nulls=nulls)


SIZES = st.lists(st.integers(0, 500), min_size=1, max_size=60)


@settings(max_examples=60)
@given(sizes=SIZES, order=st.sampled_from([list, sorted]), part=st.integers(1, 2000), window=st.integers(1, 70))
def test_batches_are_cut_by_what_records_take(
    sizes: list[int], order: Any, part: int, window: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sizes = order(sizes)
    path = tmp_path_factory.mktemp("out")
    flat = [np.full(size, at % 256, np.uint8) for at, size in enumerate(sizes)]
    pairs = [np.zeros((size % 3, 2), np.int16) for size in sizes]
    written(path, np.uint8, {"flat": flat})
    written(path, np.int16, {"pairs": pairs, "dense": np.zeros((len(sizes), 5), np.int16)})
    with pytest.MonkeyPatch.context() as patch, MSDataset(path) as ds:
        small_parts(patch, part)
        patch.setattr(reading, "WINDOW", window)
        found = list(reading.batches(reading.streams_of(ds, None)))
    taken = [size + 4 * (size % 3) + 2 * reading.PLACE + 10 for size in sizes]
    assert [start for start, _ in found] == naive_starts(taken, part, window)
    for (_, batch), count in zip(found, np.diff([start for start, _ in found] + [len(sizes)]).tolist(), strict=True):
        assert count == 1 or bytes_of(batch) <= part
    together = [batch["flat"] for _, batch in found]
    assert all(isinstance(packed, Packed) for packed in together)
    assert np.array_equal(np.concatenate([packed[0] for packed in together]), np.concatenate(flat))


def naive_starts(taken: list[int], part: int, window: int) -> list[int]:
    """Record after record, as long as there is room."""
    starts: list[int] = []
    room = 0
    for at, size in enumerate(taken):
        if at % window == 0 or size > room:
            starts.append(at)
            room = part
        room -= size
    return starts


def bytes_of(batch: dict[str, Any]) -> int:
    return sum(values.values.nbytes if isinstance(values, Packed) else values.nbytes for values in batch.values())


@pytest.mark.parametrize("way", ["reader", "hf", "npy"])
@pytest.mark.parametrize("records", ["large", "rising"])
def test_no_way_out_reads_more_than_a_part_at_once(
    memory: Path, records: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pa = needed("pyarrow")
    small_parts(monkeypatch, 1 << 16)
    count, width = (70, 1 << 17) if records == "large" else (700, 100)
    written(memory / "in", np.uint8, {"dense": np.ones((count, width), np.uint8)})
    if records == "rising":
        written(memory / "in", np.int32, {"ragged": [np.zeros(at * at // 40, np.int32) for at in range(count)]})
    seen: list[tuple[int, int]] = []
    real = reading.read

    def read(streams: Any, rows: slice) -> Any:
        batch = real(streams, rows)
        seen.append((rows.stop - rows.start, bytes_of(batch)))
        return batch

    monkeypatch.setattr(reading, "read", read)
    with MSDataset(memory / "in") as ds:
        if way == "reader":
            for batch in to_arrow(ds, reader=True):
                assert batch.num_rows == seen[-1][0]
        elif way == "hf":
            needed("datasets")
            to_hf(ds, memory / "in.arrow")
            with pa.ipc.open_stream(memory / "in.arrow") as file:
                assert [batch.num_rows for batch in file] == [rows for rows, _ in seen]
        else:
            dense = ds["dense"]
            assert isinstance(dense, DenseDataset)
            to_numpy(dense, memory / "in.npy")
    assert sum(rows for rows, _ in seen) == count
    if records == "large":
        assert {rows for rows, _ in seen} == {1}
    else:
        assert max(size for _, size in seen) <= 1 << 16
        assert len(seen) < 400


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
