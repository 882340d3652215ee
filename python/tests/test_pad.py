"""Ragged batches as dense ones, beside a naive twin."""

from __future__ import annotations

import array
import math
from pathlib import Path
from typing import Any

import loaderx
import ml_dtypes
import numpy as np
import pytest
from dtype_samples import DTYPES, LAYOUTS, NAMED, bits, random_array, whole
from hypothesis import given, settings
from hypothesis import strategies as st
from loaderx.dataset import Packed, RaggedDataset
from loaderx.dataset import pad as pad_of_datasets
from loaderx.utils import pad
from support import Array, same
from test_packed_append import packed_of


def naive(records: list[Array], item: Array, length: int, side: str) -> bytes:
    """Row after row, as bytes."""
    rest, size = records[0].shape[1:], item.dtype.itemsize
    row = int(np.prod(rest, dtype=np.int64)) * size
    dense = b""
    for record in records:
        padding = item.tobytes() * (row // size) * (length - len(record))
        dense += padding + bits(record) if side == "left" else bits(record) + padding
    return dense


@st.composite
def batches(draw: st.DrawFn) -> list[Array]:
    dtype = draw(DTYPES)
    rest = draw(st.lists(st.integers(0, 3), max_size=3).map(tuple))
    lengths = draw(st.lists(st.integers(0, 5), min_size=1, max_size=6))
    return [random_array(dtype, (length, *rest), i) for i, length in enumerate(lengths)]


@settings(max_examples=200)
@given(batches(), st.integers(0, 3) | st.none(), st.sampled_from(["left", "right"]))
def test_pad_is_the_naive_twin(records: list[Array], more: int | None, side: Any) -> None:
    dtype = records[0].dtype
    longest = max(map(len, records))
    length = None if more is None else longest + more
    item = whole(np.zeros(1, dtype)).view(dtype)[0:1].reshape(())
    if dtype == np.dtype("float8_e8m0fnu"):
        item = np.array(1, dtype)  # it has no zero
    value: Any = item if item.tobytes().strip(b"\0") else 0
    expected = naive(records, item, longest if length is None else length, side)
    for given_records in (records, packed_of(records, dtype), iter(records)):
        dense, lengths = pad(given_records, value, length, side)
        assert dense.dtype == dtype
        assert dense.shape == (len(records), longest if length is None else length, *records[0].shape[1:])
        assert bits(dense) == expected
        assert dense.flags.c_contiguous
        assert dense.flags.writeable
        assert same(lengths, np.array([len(record) for record in records], np.int64))


def test_the_documented_example(tmp_path: Path) -> None:
    records = [np.arange(length, dtype=np.int32) for length in (3, 1, 4, 1, 5)]
    with RaggedDataset(tmp_path / "ds", dtype=np.int32) as ds:
        ds.append(records)
        for batch in (ds[[0, 2, 4]], ds.packed([0, 2, 4])):
            padded, lengths = pad(batch)
            assert padded.tolist() == [[0, 1, 2, 0, 0], [0, 1, 2, 3, 0], [0, 1, 2, 3, 4]]
            assert lengths.tolist() == [3, 4, 5]
            left, _ = pad(batch, value=-100, length=6, side="left")
            assert left[0].tolist() == [-100, -100, -100, 0, 1, 2]
    assert loaderx.pad is pad is pad_of_datasets


@pytest.mark.parametrize("layout", LAYOUTS)
def test_records_of_every_layout(layout: str) -> None:
    record = LAYOUTS[layout](np.arange(6, dtype=np.float32).reshape(3, 2))
    before = np.array(record)
    dense, lengths = pad([record, np.ones((1, 2), np.float32)], value=7)
    rows = max(len(record), 1)
    assert np.array_equal(dense[0, : len(record)], before)
    assert dense[1].tolist() == [[1, 1], *[[7, 7]] * (rows - 1)]
    assert lengths.tolist() == [len(record), 1]
    assert np.array_equal(record, before)
    assert not np.shares_memory(dense, record)


def test_arrays_of_others() -> None:
    class Interface:
        def __init__(self, values: Array) -> None:
            self.values = values
            self.__array_interface__ = values.__array_interface__

    dense, lengths = pad([Interface(np.arange(3.0)), np.arange(1.0), [4.0, 5.0], array.array("d", [6.0])], -1)
    assert dense.tolist() == [[0, 1, 2], [0, -1, -1], [4, 5, -1], [6, -1, -1]]
    assert lengths.tolist() == [3, 1, 2, 1]
    dense, _ = pad([b"ab", bytearray(b"c"), memoryview(b"")], 255)
    assert dense.tolist() == [[97, 98], [99, 255], [255, 255]]
    dense, _ = pad(Packed(array.array("i", [1, 2, 3]), [0, 1, 3]))  # type: ignore[arg-type]
    assert dense.tolist() == [[1, 0], [2, 3]]


def test_shapes_of_a_packed_batch_may_be_an_array() -> None:
    values = np.arange(12, dtype=np.int16)
    dense, lengths = pad(Packed(values, np.array([0, 4, 12]), np.array([[2, 2], [4, 2]])), 9)
    assert dense[0].tolist() == [[0, 1], [2, 3], [9, 9], [9, 9]]
    assert lengths.tolist() == [2, 4]
    dense, lengths = pad(Packed(values[:0], np.array([0, 0, 0]), [(3, 0), (1, 0)]))
    assert dense.shape == (2, 3, 0)
    assert lengths.tolist() == [3, 1]


def test_empty_records_are_rows_of_padding() -> None:
    dense, lengths = pad([np.empty(0, np.int8)] * 2, 5)
    assert dense.shape == (2, 0)
    assert lengths.tolist() == [0, 0]
    assert pad([np.empty(0, np.int8)] * 2, 5, length=2)[0].tolist() == [[5, 5]] * 2


@pytest.mark.parametrize("dtype", ["<U4", "|S5", "<i2", np.dtype([("a", "<f8"), ("b", "<U2")])])
def test_a_large_batch(dtype: Any) -> None:
    """Memory of a megabyte and more is the loader's own."""
    dtype = np.dtype(dtype)
    records = [random_array(dtype, (length,), length) for length in (3000, 1, 0, 2999)]
    for batch in (records, packed_of(records, dtype)):
        dense, _ = pad(batch, length=100_000, side="left")
        assert dense.dtype == dtype
        for row, record in zip(dense, records, strict=True):
            cut = len(row) - len(record)
            assert bits(row[cut:]) == bits(record)
            assert not bits(row[:cut]).strip(b"\0")


ONE = np.arange(2, dtype=np.int32)


@pytest.mark.parametrize(
    ("records", "options", "error", "text"),
    [
        ([], {}, ValueError, "at least one record, found none: a batch of none has neither a dtype nor a length"),
        (Packed(ONE[:0], np.array([0])), {}, ValueError, "pad: expected at least one record, found none"),
        ([ONE, ONE, np.arange(7, dtype=np.int32)], {"length": 5}, ValueError, "record 2: expected a length of at most 5, found 7"),
        (Packed(ONE, np.array([0, 0, 2])), {"length": 1}, ValueError, "record 1: expected a length of at most 1, found 2"),
        ([ONE, ONE.astype(np.int64)], {}, ValueError, "pad: record 1: expected dtype '<i4', found '<i8'"),
        ([ONE, np.ones((2, 1), np.int32)], {}, ValueError, r"record 1: expected dimensions \(1\) as record 0 has, found \(2\)"),
        ([np.ones((2, 3)), np.ones((2, 4))], {}, ValueError, r"record 1: expected trailing dimensions \(3\) .* found \(4\)"),
        ([np.int32(1), ONE], {}, ValueError, r"record 1: expected dimensions \(0\) as record 0 has, found \(1\)"),
        ([np.array(1)], {}, ValueError, r"record 0: expected an axis to pad along, found shape \(\)"),
        (Packed(ONE, np.array([0, 1, 2]), [(), ()]), {}, ValueError, "record 0: expected an axis to pad along"),
        (Packed(ONE, np.array([0, 2]), [(3,)]), {}, ValueError, r"record 0: shape \(3,\) has 3 items, found 2"),
        (np.ones((2, 2)), {}, TypeError, "pad: expected a list of records, found one ndarray"),
        ("ab", {}, TypeError, "pad: expected a list of records, found one str"),
        ({"a": ONE}, {}, TypeError, "pad: expected a list of records, found one dict"),
        ([np.array([None])], {}, TypeError, "no fixed width"),
        ([np.ones((1,) * 8)], {}, ValueError, "record 0: expected at most 7 dimensions"),
        ([ONE], {"side": "middle"}, ValueError, "side: expected 'left' or 'right', found 'middle'"),
        ([ONE], {"length": -1}, ValueError, "pad: length: expected at least 0|0 to"),
        ([ONE], {"length": 2.0}, TypeError, "pad: length: expected an integer"),
        ([ONE], {"length": True}, TypeError, "pad: length: expected an integer"),
        ([np.ma.masked_array([1])], {}, TypeError, "record 0: a masked array"),
    ],
)  # fmt: skip
def test_what_can_not_be_padded(records: Any, options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        pad(records, **options)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("i1", -128),
        ("u1", 255),
        ("u8", 2**64 - 1),
        ("i8", -(2**63)),
        (">i2", -2),
        ("?", True),
        ("f4", 0.5),
        ("f4", -0.0),
        ("f4", np.nan),
        ("f2", np.inf),
        ("f8", 2**53),
        ("i4", 3.0),
        ("i4", 3 + 0j),
        ("c8", 1 - 2j),
        ("c8", 7),
        ("g", np.longdouble("0.1")),
        ("M8[s]", np.datetime64("2020-01-01")),
        ("M8[ns]", np.datetime64("NaT")),
        ("m8[s]", np.timedelta64(3, "h")),
        ("m8[s]", 0),
        ("S3", b"ab"),
        ("U3", "ä"),
        (">U3", 0),
        ("V2", np.void(b"xy")),
        (np.dtype([("a", "u1"), ("b", "<f4")]), (3, 0.5)),
        (np.dtype([("a", "u1"), ("b", "<f4")]), 0),
        (ml_dtypes.bfloat16, 1.5),
        (ml_dtypes.bfloat16, ml_dtypes.bfloat16(3)),
        (ml_dtypes.bfloat16, np.nan),
        (ml_dtypes.int4, -8),
        (ml_dtypes.float8_e4m3fn, 448),
    ],
)
def test_values_that_a_dtype_has(dtype: Any, value: Any) -> None:
    dtype = np.dtype(dtype)
    dense, _ = pad([np.zeros(2, dtype), np.zeros(0, dtype)], value)
    expected = np.zeros(2, dtype)
    if type(value) is not int or value != 0:
        expected[:] = value.real if dtype.kind == "i" else value
    if dtype.char == "g":
        assert np.array_equal(dense[1], expected)  # the bits behind its eighty are any
    else:
        assert same(dense[1], expected)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("u1", -1),
        ("u1", 256),
        ("i1", np.uint8(255)),
        ("u8", -1),
        ("u8", np.int64(-1)),
        ("i8", np.uint64(2**63)),
        ("i8", 2**63),
        ("i8", 2.0**63),
        ("i4", 0.5),
        ("i4", np.nan),
        ("?", 2),
        ("f4", 0.1),
        ("f4", 2**24 + 1),
        ("f8", 2**53 + 1),
        ("f2", 70000),
        ("f8", 1j),
        ("f8", np.longdouble("0.1")),
        ("c8", 0.1),
        ("f4", "1"),
        ("f4", None),
        ("f4", [1.0, 2.0]),
        ("i8", 10**30),
        ("i8", np.datetime64(5, "s")),
        ("M8[s]", np.timedelta64(5, "s")),
        ("M8[D]", np.datetime64("2020-01-01T01")),
        ("S2", b"abc"),
        ("S2", "ab"),
        ("S2", 1),
        ("U1", b"a"),
        ("V2", b"xy"),
        (np.dtype([("a", "u1")]), (300,)),
        (np.dtype([("a", "u1")]), 1),
        (ml_dtypes.bfloat16, 1.01),
        (ml_dtypes.bfloat16, 1j),
        (ml_dtypes.int4, 8),
        (ml_dtypes.uint4, -1),
        (ml_dtypes.float8_e8m0fnu, 0),
    ],
)
def test_values_that_a_dtype_does_not_have(dtype: Any, value: Any) -> None:
    with pytest.raises(ValueError, match="pad: value: dtype .* does not have exactly"):
        pad([np.zeros(2, np.uint8).astype(dtype) if dtype != "V2" else np.zeros(2, "V2")], value)


@pytest.mark.parametrize("kind", NAMED)
def test_one_in_every_dtype_of_ml_dtypes(kind: Any) -> None:
    dtype = np.dtype(kind)
    one = np.ones(1, np.float32).astype(dtype)
    if complex(one[0]) != 1:
        pytest.skip("it has no one")
    dense, _ = pad([one, one[:0]], 1)
    assert bits(dense) == 2 * bits(one)


@pytest.mark.parametrize("value", [0, True, -2.5, np.float32(3), math.nan])
@pytest.mark.parametrize("dtype", ["<g", ">g", "<G", ">G"])
def test_bytes_that_no_number_uses_are_zero(dtype: str, value: Any) -> None:
    """A long double of x86 has ten bytes in sixteen."""
    dense, _ = pad([np.empty(0, dtype)], value=value, length=4)
    raw = dense.view(np.uint8).reshape(-1, np.dtype("g").itemsize)[:, :: 1 if dtype[0] == "<" else -1]
    assert np.array_equal(dense, np.full((1, 4), value, dtype), equal_nan=True)
    if np.finfo(np.longdouble).nmant == 63:
        assert not raw[:, 10:].any()
