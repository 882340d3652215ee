"""Arrow: every type, tables in memory, files and streams that pyarrow wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arrow_tables import Case, cases, table
from converting import (
    Stored,
    assert_holds,
    begins_everywhere,
    converted,
    cuts,
    damaged,
    flips,
    needed,
    read_all,
    resumes_everywhere,
    says_where,
    selects,
    small_parts,
    texts,
    writes_nothing,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from loaderx.converters import convert
from support import all_same

pa = needed("pyarrow")
feather = needed("pyarrow.feather")
NO_TAKE = ("list_view", "large_list_view", "string_view", "binary_view", "runs")
"""Types that pyarrow can't take from."""
FEW = ["string", "i4", "list.points"]
NOT_IN_FEATHER = ("runs",)


def assert_are(streams: Mapping[str, Stored], wanted: Mapping[str, Case], rows: Any = slice(None)) -> None:
    """The streams are what the columns should become."""
    assert sorted(streams) == sorted(wanted)
    for name, case in wanted.items():
        stream = streams[name]
        found = (stream.kind, stream.dtype, stream.item_shape, stream.metadata)
        assert found == (case.kind, np.dtype(case.dtype), case.item_shape, case.metadata), name
        assert_holds(stream, case.records[rows])


def assert_reads(src: Any, wanted: Mapping[str, Case], rows: Any = slice(None)) -> None:
    """As `assert_are`, of what would be written."""
    found = read_all(src)
    assert sorted(found) == sorted(wanted)
    for name, case in wanted.items():
        assert all_same(found[name], [np.asarray(one, case.dtype) for one in case.records[rows]]), name


def test_every_type(memory: Path) -> None:
    whole, wanted = table(pa)
    assert_are(converted(whole, memory / "whole"), wanted)
    assert_are(converted(whole.slice(0, 0), memory / "empty"), wanted, slice(0, 0))
    chunked = pa.concat_tables([whole.slice(0, 5), whole.slice(5, 1), whole.slice(6)])
    assert_reads(chunked.slice(4, 9), wanted, slice(4, 13))


CASES = cases(pa, 40)


@settings(max_examples=200)
@given(data=st.data())
def test_slices_of_every_type(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(CASES)))
    case = CASES[name]
    start = data.draw(st.integers(0, 40))
    stop = data.draw(st.integers(start, 40))
    ends = sorted(data.draw(st.lists(st.integers(start, stop), max_size=3)))
    array = case.array
    pieces = [array[a:b] for a, b in zip([start, *ends], [*ends, stop], strict=True)]
    column = pa.table({name: pa.chunked_array(pieces, array.type)})
    assert_reads(column, {name: case}, slice(start, stop))


def test_objects_in_memory(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, wanted = table(pa)
    batch = whole.combine_chunks().to_batches()[0]
    assert_reads(batch, wanted)
    reader = pa.RecordBatchReader.from_batches(whole.schema, whole.to_batches(max_chunksize=7))
    assert_reads(reader, wanted)
    pads = needed("pyarrow.dataset")
    columns = whole.drop_columns(["runs", "list_view", "large_list_view"])
    dataset = pads.dataset(columns)
    assert_reads(dataset, {name: case for name, case in wanted.items() if name in columns.column_names})
    small_parts(monkeypatch, 300)
    assert resumes_everywhere(whole.select(FEW), memory) > 2
    begins_everywhere(whole)
    begins_everywhere(dataset)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_feather(memory: Path, compression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, wanted = table(pa, without=NOT_IN_FEATHER)
    feather.write_feather(whole, memory / "a.feather", compression=compression, chunksize=6)
    assert_reads(memory / "a.feather", wanted)
    assert resumes_everywhere(memory / "a.feather", memory, streams=FEW) == 4
    begins_everywhere(memory / "a.feather")
    small_parts(monkeypatch, 100)
    begins_everywhere(memory / "a.feather")


@pytest.mark.parametrize("dictionaries", [False, True])
def test_streams_of_batches(memory: Path, dictionaries: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, wanted = table(pa, without=() if dictionaries else ("dictionary",))
    (memory / "in").mkdir()
    for number, start in ((2, 0), (10, 9)):
        part = whole.slice(start, 9 if start == 0 else None)
        with pa.ipc.new_stream(str(memory / f"in/part-{number}.arrow"), whole.schema) as writer:
            writer.write_table(part, max_chunksize=4)
    assert_reads(memory / "in", wanted)
    assert resumes_everywhere(memory / "in", memory, streams=FEW) == 7
    begins_everywhere(memory / "in")
    small_parts(monkeypatch, 100)
    begins_everywhere(memory / "in")


def test_a_dictionary_that_changes(memory: Path) -> None:
    words = [["a", "b", "a"], ["c", "d"], ["d", "a"]]
    batches = [pa.record_batch({"w": pa.array(some).dictionary_encode()}) for some in words]
    with pa.ipc.new_stream(str(memory / "in.arrow"), batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    assert texts(converted(memory / "in.arrow", memory / "out")["w"]) == [word for some in words for word in some]
    begins_everywhere(memory / "in.arrow")


def test_structures(memory: Path) -> None:
    rows = [{"x": i, "y": {"z": float(i), "t": ["a"] * i}} for i in range(4)]
    nested = pa.table({"s": pa.array(rows, pa.struct({"x": pa.int8(), "y": pa.struct({"z": pa.float32()})}))})
    streams = converted(nested.slice(1), memory / "out")
    assert_holds(streams["s.x"], np.array([1, 2, 3], np.int8))
    assert_holds(streams["s.y.z"], np.array([1, 2, 3], np.float32))
    clash = pa.table({"s": pa.array([{"x": 1}]), "s.x": [2]})
    with pytest.raises(ValueError, match=r"column 's\.x': its stream would have the name 's\.x'"):
        convert(clash, memory / "clash")
    with pytest.raises(ValueError, match="there are several of this name"):
        convert(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), memory / "clash")
    assert list(converted(pa.table({"a/b": [1]}), memory / "slash")) == ["a.b"]
    with pytest.raises(ValueError, match="can't have the name ''"):
        convert(pa.table({"": [1]}), memory / "clash")


def test_nulls_are_refused() -> None:
    for name, case in cases(pa, 12).items():
        some = pa.concat_tables(
            [pa.table({name: case.array.slice(0, 7)}), pa.table({name: pa.nulls(1, case.array.type)})]
        )
        with pytest.raises(
            ValueError, match=f"column '{name}', record 7: a null, which no dtype has; give nulls='mask'"
        ):
            read_all(some)


def test_nulls_are_masked() -> None:
    present = np.array([True, False, True, True, False, False, True])
    where = pa.array(np.where(present, np.arange(7), 0), mask=~present)
    for name, case in cases(pa, 7).items():
        column = case.array.take(where) if name not in NO_TAKE else None
        if column is None:
            continue
        streams = read_all(pa.table({name: column}).slice(1), nulls="mask")
        assert streams[f"{name}.valid"] == present[1:].tolist()
        for i, there in enumerate(present[1:], 1):
            found, wanted = streams[name][i - 1], np.asarray(case.records[i])
            if there:
                assert found.tobytes() == wanted.tobytes(), name
            elif case.kind == "dense":
                assert not any(found.tobytes()), name
            else:
                assert found.size == 0, name


def test_some_nulls_are_masked_or_nan(memory: Path) -> None:
    columns = pa.table(
        {"a": pa.array([1, None]), "b": pa.array([None, 2.0]), "c": pa.array([None, 3], pa.timestamp("s"))}
    )
    streams = converted(columns.select(["a", "b"]), memory / "some", nulls=["a", "b"])
    assert sorted(streams) == ["a", "a.valid", "b", "b.valid"]
    with pytest.raises(ValueError, match=r"column 'b', record 0.* or nulls='nan'"):
        convert(columns, memory / "out", nulls=["a"])
    streams = converted(columns.select(["b", "c"]), memory / "nan", nulls="nan")
    assert_holds(streams["b"], np.array([np.nan, 2.0]))
    assert_holds(streams["c"], np.array(["NaT", 3], "M8[s]"))
    with pytest.raises(ValueError, match="column 'a', record 1: a null"):
        convert(columns, memory / "out", nulls="nan", restart=True)
    with pytest.raises(ValueError, match="nulls: expected one of refuse, mask, nan"):
        convert(columns, memory / "out2", nulls="drop")
    with pytest.raises(ValueError, match=r"nulls: expected some of the columns .*found \['z'\]"):
        convert(columns, memory / "out2", nulls=["z"])


def test_nulls_within_records() -> None:
    for column in (
        pa.array([[1], [2, 3], [], [4, None]], pa.list_(pa.int8())),
        pa.array([[1, 1], [2, 3], [0, 0], [4, None]], pa.list_(pa.int8(), 2)),
        pa.array([None, [[1, 1]], [], [[4, 4], [5, None]]], pa.list_(pa.list_(pa.int8(), 2))),
    ):
        with pytest.raises(ValueError, match="column 'x', record 3: a null inside of it"):
            read_all(pa.table({"x": column}), nulls="mask")


def test_null_lists_with_values_behind_them(memory: Path) -> None:
    offsets, values = pa.array([0, 2, 4, 5], pa.int32()), pa.array([1, 2, 3, 4, 5], pa.int64())
    lists = pa.ListArray.from_arrays(offsets, values, mask=pa.array([False, True, False]))
    streams = converted(pa.table({"x": lists}), memory / "out", nulls="mask")
    assert_holds(streams["x"], [[1, 2], [], [5]])


def test_null_structures(memory: Path) -> None:
    column = pa.array([{"x": 1}, None, {"x": None}, {"x": 4}])
    streams = converted(pa.table({"s": column}), memory / "out", nulls="mask")
    assert_holds(streams["s.x.valid"], np.array([True, False, False, True]))
    assert_holds(streams["s.x"], np.array([1, 0, 0, 4]))


def test_what_no_stream_holds(memory: Path) -> None:
    import decimal

    for column, why in (
        (pa.array([decimal.Decimal("1.5")]), "no dtype holds decimal"),
        (pa.array([None]), "nothing but nulls"),
        (pa.array([[["a"]]]), "can't be a stream"),
        (pa.array([["a"]]), "can't be a stream"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), "can't be a stream"),
        (pa.array([0], pa.timestamp("s", "Europe/Berlin")), "give utc=True"),
    ):
        mixed = pa.table({"good": [1], "bad": column})
        with pytest.raises(ValueError, match=f"column 'bad': .*{why}.*; streams= of the others leaves it out"):
            convert(mixed, memory / "out")
        with pytest.raises(ValueError, match=f"column 'bad': .*{why}"):
            convert(mixed, memory / "out", streams=["bad"])
    assert list(converted(mixed, memory / "good", streams=["good"])) == ["good"]
    streams = converted(mixed, memory / "zone", utc=True)
    assert streams["bad"].metadata == {"time_zone": "Europe/Berlin"}
    assert_holds(streams["bad"], np.array([0], "M8[s]"))


def test_selections_and_words(memory: Path) -> None:
    columns = pa.table({"a": [1, 2], "s": ["x", "y"]})
    selects(columns, memory)
    assert writes_nothing(columns, memory) == (
        "Apache Arrow, in memory: 2 records\n"
        f"  {memory}/nothing/a: dense () '<i8', zstd, from column 'a': int64\n"
        f"  {memory}/nothing/s: ragged '|u1', zstd, from column 's': string"
    )


def test_files_of_unlike_columns(memory: Path) -> None:
    (memory / "in").mkdir()
    feather.write_feather(pa.table({"a": [1]}), memory / "in/1.feather")
    feather.write_feather(pa.table({"a": [1.0]}), memory / "in/2.feather")
    with pytest.raises(ValueError, match=r"2\.feather: column 'a': expected int64 as in .*1\.feather, found double"):
        convert(memory / "in", memory / "out")
    feather.write_feather(pa.table({"b": [1]}), memory / "in/2.feather")
    with pytest.raises(ValueError, match=r"2\.feather: expected the columns of .*\['a'\], found \['b'\]"):
        convert(memory / "in", memory / "out")


@pytest.mark.parametrize("form", ["feather", "arrow"])
def test_damage(memory: Path, form: str) -> None:
    """Whatever is changed in a file, it is an error that names the file, or other values: never a crash or another error."""
    whole, _ = table(pa, without=NOT_IN_FEATHER)
    path = memory / f"in.{form}"
    if form == "feather":
        feather.write_feather(whole.select(["i4", "list_", "string", "bool", "dictionary"]), path, chunksize=6)
    else:
        with pa.ipc.new_stream(str(path), whole.select(["i4", "list_", "string"]).schema) as writer:
            writer.write_table(whole.select(["i4", "list_", "string"]), max_chunksize=6)
    content = path.read_bytes()
    caught = 0
    for name in damaged(path, [*cuts(content, 60), *flips(content, 400)]):
        caught += says_where(path, name)
    assert caught > 60


@pytest.mark.parametrize("large", [False, True])
def test_list_views_that_overlap(large: bool) -> None:
    """Lists that lie in any order, twice, or with gaps between them; what no list has may be null."""
    kind = pa.LargeListViewArray if large else pa.ListViewArray
    offsets = pa.array([4, 0, 1, 0, 4], pa.int64() if large else pa.int32())
    sizes = pa.array([2, 3, 0, 1, 1], offsets.type)
    values = pa.array([10, 11, 12, None, 14, 15], pa.int16())
    views = pa.table({"x": kind.from_arrays(offsets, sizes, values)})
    wanted = [[14, 15], [10, 11, 12], [], [10], [14]]
    assert all_same(read_all(views)["x"], [np.array(one, np.int16) for one in wanted])
    assert all_same(read_all(views.slice(1, 3))["x"], [np.array(one, np.int16) for one in wanted[1:4]])
    nulls = kind.from_arrays(offsets, pa.array([2, 3, 0, 1, 1], offsets.type), pa.array([10, 11, None, 0, 1, 2]))
    with pytest.raises(ValueError, match="column 'x', record 1: a null inside of it"):
        read_all(pa.table({"x": nulls}))


def test_a_cache_of_hugging_face(memory: Path) -> None:
    (memory / "in").mkdir()
    for value, name in enumerate(["x-test", "x-train"]):
        feather.write_feather(pa.table({"x": [value]}), memory / f"in/{name}.arrow")
    with pytest.raises(ValueError, match=r"found those of test \(1, such as x-test.arrow\), train \(1, "):
        convert(memory / "in", memory / "out")
    assert_holds(converted(memory / "in/x-train.arrow", memory / "out")["x"], np.array([1]))
