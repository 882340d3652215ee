"""Lengths and shapes of ragged records, which are had without reading any."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from loaderx import _core
from loaderx.dataset import RaggedDataset
from loaderx.dataset.shapes import rows_of
from loaderx.zrecord import CorruptRecordError, CorruptStoreError
from stores_of_1x import as_written_by_1x
from support import Array, all_same, same

SHAPES = st.lists(npst.array_shapes(min_dims=0, max_dims=7, min_side=0, max_side=4), min_size=1, max_size=9)


def naive_rows(shapes: list[tuple[int, ...]]) -> Array | None:
    """The twin of `rows_of`."""
    rows = [[0] * 8 if len(s) == 1 else [len(s) + 1, *s, *[0] * (7 - len(s))] for s in shapes]
    return np.array(rows, np.uint32).reshape(-1, 8) if np.any(rows) else None


def naive_shape(row: Array, items: int) -> tuple[int, ...] | None:
    """The twin of `_core.fits` and `_core.shapes`."""
    marker = int(row[0])
    if marker == 0:
        return (items,)
    shape = tuple(row[1:marker].tolist())
    return shape if marker <= 8 and math.prod(shape) == items else None


@given(SHAPES)
def test_rows_say_the_shapes_they_are_made_of(shapes: list[tuple[int, ...]]) -> None:
    rows = rows_of(shapes)
    expected = naive_rows(shapes)
    assert (rows is None) == (expected is None)
    if rows is None or expected is None:
        return
    assert rows.dtype == np.uint32
    assert np.array_equal(rows, expected)
    places = np.concatenate([[0], np.cumsum([math.prod(shape) for shape in shapes])])
    assert _core.fits(rows, places).all()
    assert _core.shapes(rows, places) == shapes
    flat = np.arange(places[-1])
    parts = _core.split(flat, places, rows)
    assert [part.shape for part in parts] == shapes
    assert np.array_equal(np.concatenate([part.ravel() for part in parts]), flat)
    assert all(part.base is flat and part.flags.writeable for part in parts)


HOSTILE = st.one_of(st.integers(0, 9), st.just(2**32 - 1), st.just(2**16))


@settings(max_examples=300)
@given(st.lists(st.lists(HOSTILE, min_size=8, max_size=8), min_size=1, max_size=4), st.data())
def test_rows_of_any_numbers(rows: list[list[int]], data: st.DataObject) -> None:
    table = np.array(rows, np.uint32)
    honest = [math.prod(row[1 : row[0]]) if row[0] else 5 for row in rows]
    items = [data.draw(st.sampled_from([n, n + 1, 0])) if n < 2**40 else 7 for n in honest]
    places = np.concatenate([[0], np.cumsum(items)])
    expected = [naive_shape(row, n) for row, n in zip(table, items, strict=True)]
    assert _core.fits(table, places).tolist() == [shape is not None for shape in expected]
    if None in expected:
        with pytest.raises(ValueError, match=f"record {expected.index(None)} can't have the shape"):
            _core.shapes(table, places)
    else:
        assert _core.shapes(table, places) == expected


def test_what_rows_and_places_have_to_be() -> None:
    rows, flat = np.array([[3, 2, 2, 0, 0, 0, 0, 0]], np.uint32), np.arange(4)
    for work in (_core.fits, _core.shapes, lambda rows, places: _core.split(flat, places, rows)):
        for places in ([0], [0, 1, 4], []):
            with pytest.raises(ValueError, match="expected one place more than the 1"):
                work(rows, np.array(places, np.int64))
        with pytest.raises(ValueError, match="expected rows of 8 numbers"):
            work(rows[:, :7].copy(), np.array([0, 4]))
    for places in ([0, 5], [-1, 4], [4, 0]):
        with pytest.raises(ValueError, match="the places are no cuts|can't have the shape"):
            _core.split(flat, np.array(places), rows)
    with pytest.raises(ValueError, match="record 0 can't have the shape"):
        _core.split(flat, np.array([0, 3]), rows)
    assert _core.fits(rows, np.array([4, 0])).tolist() == [False]


def test_shapes_of_every_form_of_index(ragged: RaggedDataset, records: list[Array]) -> None:
    expected = [record.shape for record in records]
    for index in (slice(None), [3, 3, -1], np.array([7, 0], np.uint64), slice(8, 2, -2), np.arange(9) % 2 == 0, []):
        assert ragged.shapes(index) == [record.shape for record in ragged[index]]
    assert ragged.shapes(slice(None)) == expected
    assert ragged.shapes(-2) == [expected[-2]]
    assert all(type(size) is int for shape in ragged.shapes([0, 1]) for size in shape)
    with pytest.raises(IndexError, match="9"):
        ragged.shapes(9)


@pytest.mark.parametrize("index", [[], [0], [8, 0, 8], [-1, 3, -9], [2, 9], [0, -10]])
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int32, ">i8"])
def test_an_array_of_indices_is_a_list_of_them(
    ragged: RaggedDataset, records: list[Array], index: list[int], dtype: Any
) -> None:
    """Arrays of 64-bit indices take a way of their own."""
    if dtype == np.uint64 and min(index, default=0) < 0:
        return
    array = np.array(index, dtype)
    if index and not -9 <= min(index) <= max(index) < 9:
        for read in (ragged.packed, ragged.__getitem__, ragged.__getitems__):
            with pytest.raises(IndexError, match=f"index {index[1]} is out of range for 9 records"):
                read(array)
        return
    expected = [records[i] for i in index]
    assert all_same(ragged[array], expected)
    assert all_same(ragged.__getitems__(array), expected)
    packed, same_packed = ragged.packed(array), ragged.packed(index)
    assert same(packed.values, same_packed.values)
    assert same(packed.offsets, same_packed.offsets)
    assert packed.shapes == same_packed.shapes
    with pytest.raises(IndexError, match="one dimension"):
        ragged.packed(array[:, None])


def test_shapes_of_one_dimensional_records(tmp_path: Path) -> None:
    with RaggedDataset(tmp_path / "ds", dtype=np.int64) as ds:
        assert ds.shapes([]) == []
        ds.append([np.arange(3), np.arange(0)])
        assert ds.shapes([1, 0]) == [(0,), (3,)]


def spoil(file: Path) -> None:
    """Leave the length, and nothing of the content."""
    file.write_bytes(b"\xa5" * file.stat().st_size)


@pytest.mark.parametrize("codec", ["raw", "zstd"])
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_lengths_and_shapes_do_not_touch_the_data(tmp_path: Path, records: list[Array], codec: str, io: Any) -> None:
    with RaggedDataset(tmp_path / "ds", dtype=np.int32, codec=codec) as ds:
        ds.append(records)
    spoil(tmp_path / "ds" / "0.chunk")
    with RaggedDataset(tmp_path / "ds", read_only=True, io=io) as ds:
        assert ds.lengths(slice(None)).tolist() == [record.nbytes for record in records]
        assert ds.shapes(slice(None)) == [record.shape for record in records]
        with pytest.raises(CorruptRecordError, match="record 0"):
            ds[0]


def test_nor_do_those_of_1x_that_are_listed(tmp_path: Path) -> None:
    shapes = [(3,), (2, 2), (1, 2, 3)]
    as_written_by_1x(tmp_path / "old", [np.zeros(shape, np.int32) for shape in shapes])
    (tmp_path / "old" / "0.chunk").write_bytes(b"\xa5" * 52)
    with RaggedDataset(tmp_path / "old", read_only=True) as ds:
        assert ds.shapes([2, 0, 1]) == [shapes[2], shapes[0], shapes[1]]
        assert ds.lengths([2, 0, 1]).tolist() == [24, 12, 16]
    values = msgpack.unpackb((tmp_path / "old" / "schema.msgpack").read_bytes())
    values["shapes"][1] = [2, 3]
    (tmp_path / "old" / "schema.msgpack").write_bytes(msgpack.packb(values))
    with RaggedDataset(tmp_path / "old", read_only=True) as ds:
        assert ds.shapes(0) == [(3,)]
        with pytest.raises(CorruptStoreError, match="record 1: its shape does not fit its 4 items"):
            ds.shapes([0, 1])


def test_shapes_that_do_not_fit_are_named(ragged: RaggedDataset) -> None:
    ragged.close()
    with (ragged.path / "0.shape").open("r+b") as file:
        file.seek(32 + 4)
        file.write((3).to_bytes(4, "little"))
    with RaggedDataset(ragged.path, read_only=True) as ds:
        assert ds.shapes(0) == [(3,)]
        unchecked = RaggedDataset(ragged.path, read_only=True, verify="never")
        for read in (ds.shapes, unchecked.packed, unchecked.__getitem__, unchecked.__getitems__):
            for index in ([0, 1], np.array([0, 1])):
                with pytest.raises(CorruptStoreError, match="record 1: its shape does not fit its 4 items"):
                    read(index)


def test_lengths_that_are_no_items(tmp_path: Path) -> None:
    with RaggedDataset(tmp_path / "ds", dtype=np.int32) as ds:
        ds._store.append(b"abcde", [0])
        for read in (ds.shapes, ds.packed, ds.__getitem__, ds.__getitems__):
            for index in (0, [0], np.array([0])):
                with pytest.raises(
                    CorruptStoreError, match="record 0: expected a multiple of the 4 bytes of '<i4', found 5"
                ):
                    read(index)
        assert ds.lengths(0).tolist() == [5]
