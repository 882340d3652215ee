"""Arrays of every dtype, shape and memory order come back bit for bit, and nobody's array is changed by it."""

from __future__ import annotations

import pickle
import sys
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from dtype_samples import DTYPES, LAYOUTS, NAMED, STRUCTURED, bits, random_array
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from loaderx import verify
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from loaderx.zrecord import Zrecord
from support import CODECS, all_same, same, swap_last, unchanged

SHAPES = st.one_of(
    npst.array_shapes(min_dims=1, max_dims=4, max_side=4),
    st.builds(
        lambda count, item: (count, *item), st.integers(1, 3), npst.array_shapes(max_dims=2, min_side=0, max_side=2)
    ),
)
PADDED = np.dtype({"names": ["a", "b"], "formats": ["u1", ">f8"], "offsets": [3, 8], "itemsize": 20})


@settings(max_examples=150, deadline=None)
@given(DTYPES, SHAPES, st.sampled_from(list(LAYOUTS)), st.sampled_from(["raw", "zstd"]), st.integers(0, 99))
def test_dense(dtype: Any, shape: tuple[int, ...], layout: str, codec: str, seed: int) -> None:
    array = LAYOUTS[layout](random_array(dtype, shape, seed))
    before, strides = bits(array), array.strides
    with tempfile.TemporaryDirectory() as folder:
        from_numpy(f"{folder}/ds", array, codec=codec)
        with DenseDataset(f"{folder}/ds", dtype=dtype) as ds:
            ds.append(array)
            found = ds[:]
            assert (found.dtype, found.shape) == (dtype, (2 * shape[0], *shape[1:]))
            assert bits(found) == 2 * before
            assert bits(ds.__getitems__(0)) == before[: len(before) // shape[0]]
            assert bits(ds.gather([0], out=np.empty((1, *shape[1:]), dtype))) == before[: len(before) // shape[0]]
            if codec == "raw" and array.size:
                assert bits(ds.view(0, shape[0])) == before
        assert (bits(array), array.strides) == (before, strides)


@settings(max_examples=150, deadline=None)
@given(
    DTYPES,
    st.lists(
        st.tuples(npst.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4), st.sampled_from(list(LAYOUTS)))
    ),
    st.sampled_from(["raw", "zstd"]),
)
def test_ragged(dtype: Any, forms: list[tuple[tuple[int, ...], str]], codec: str) -> None:
    records = [LAYOUTS[layout](random_array(dtype, shape, seed)) for seed, (shape, layout) in enumerate(forms)]
    records.append(random_array(dtype, (), 0))
    before = [bits(record) for record in records]
    with tempfile.TemporaryDirectory() as folder:
        from_iterator(f"{folder}/ds", iter(records), dtype, codec=codec)
        with RaggedDataset(f"{folder}/ds", dtype=dtype) as ds:
            ds.append(records)
            found = ds[:]
            assert [bits(record) for record in found] == before * 2
            assert all(record.dtype == dtype for record in found)
            assert [record.shape for record in found] == [record.shape for record in records] * 2
            values, _, _ = ds.packed(slice(0, len(records)))
            assert values.dtype == dtype
            assert bits(values) == b"".join(before)
    assert [bits(record) for record in records] == before


@settings(max_examples=50, deadline=None)
@given(DTYPES, SHAPES, st.integers(0, 9))
def test_the_other_byte_order(dtype: Any, shape: tuple[int, ...], seed: int) -> None:
    """Values come back as they were; what lies between the fields is zero."""
    array = random_array(dtype, shape, seed)
    clean = np.zeros(shape, dtype)
    clean[...] = array
    swapped = array.astype(dtype.newbyteorder("S"))
    before = bits(swapped)
    with tempfile.TemporaryDirectory() as folder, DenseDataset(f"{folder}/ds", dtype, shape[1:], "raw") as ds:
        ds.append(swapped)
        assert bits(ds[:]) == (bits(clean) if swapped.dtype != dtype else before)
    assert bits(swapped) == before


@settings(max_examples=50, deadline=None)
@given(STRUCTURED)
def test_a_structured_dtype_comes_back_whole(dtype: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        RaggedDataset(f"{folder}/ds", dtype).close()
        found = RaggedDataset(f"{folder}/ds").dtype
    assert found == dtype
    assert found.descr == dtype.descr
    assert (found.names, dict(found.fields or {}), found.itemsize) == (dtype.names, dict(dtype.fields), dtype.itemsize)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.int4, PADDED])
def test_codecs_deletes_and_pickles(tmp_path: Path, codec: str, dtype: Any, dictionary: bytes) -> None:
    rows = random_array(np.dtype(dtype), (20, 3), 0)
    options: dict[str, Any] = {"dict_bytes": dictionary} if codec == "zstd_dict" else {}
    from_numpy(tmp_path / "ds", rows, codec=codec, **options)
    with pickle.loads(pickle.dumps(DenseDataset(tmp_path / "ds"))) as copy:
        assert copy.dtype == dtype
        assert same(copy[:], rows)
    with DenseDataset(tmp_path / "ds") as ds:
        ds.delete([0, 1])
        ds.compact()
        assert all(bits(a) == bits(b) for a, b in zip(ds, swap_last(list(rows), [0, 1]), strict=True))
    assert verify(tmp_path / "ds").ok


def test_voids_and_bfloat16_are_two_things(tmp_path: Path) -> None:
    weights = np.arange(4).astype(ml_dtypes.bfloat16)
    for kind, name in ((weights, "bf"), (weights.view("V2"), "void")):
        from_numpy(tmp_path / name, kind, codec="raw")
    assert DenseDataset(tmp_path / "bf").dtype == ml_dtypes.bfloat16
    assert DenseDataset(tmp_path / "void").dtype == np.dtype("V2")
    assert repr(DenseDataset(tmp_path / "bf")).count("dtype='bfloat16'") == 1
    with pytest.raises(ValueError, match=r"expected dtype '\|V2', found a store of 'bfloat16'"):
        DenseDataset(tmp_path / "bf", dtype="V2")
    with pytest.raises(ValueError, match=r"expected dtype 'bfloat16', found a store of '\|V2'"):
        DenseDataset(tmp_path / "void", dtype="bfloat16")
    with DenseDataset(tmp_path / "bf") as ds, unchanged(tmp_path):
        for other in (
            weights.view("V2"),
            weights.astype("f4"),
            weights.view("u2"),
            weights.astype(ml_dtypes.float8_e5m2),
        ):
            with pytest.raises(ValueError, match="append: expected dtype 'bfloat16', found"):
                ds.append(other)
        with pytest.raises(ValueError, match=r"out: expected shape \(4,\) and dtype 'bfloat16', found .* dtype '\|V2'"):
            ds.gather(slice(None), out=np.empty(4, "V2"))


def test_without_ml_dtypes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.arange(6).astype(ml_dtypes.bfloat16).reshape(3, 2)
    from_numpy(tmp_path / "ms" / "w", weights, codec="raw")
    from_iterator(tmp_path / "ms" / "q", list(weights), np.dtype([("f", ml_dtypes.bfloat16)]).fields["f"][0])  # type: ignore[index]
    pickled = pickle.dumps(DenseDataset(tmp_path / "ms" / "w"))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    text = "dtype 'bfloat16' needs the package ml_dtypes, which is not installed: pip install ml_dtypes, or read .* loaderx.zrecord.Zrecord"
    with unchanged(tmp_path):
        for opened in (
            lambda: DenseDataset(tmp_path / "ms" / "w"),
            lambda: RaggedDataset(tmp_path / "ms" / "q", read_only=True),
            lambda: MSDataset(tmp_path / "ms"),
            lambda: pickle.loads(pickled),
            lambda: DenseDataset(tmp_path / "new", dtype="bfloat16", item_shape=()),
        ):
            with pytest.raises(ImportError, match=text):
                opened()
        assert verify(tmp_path / "ms" / "w").ok
        assert verify(tmp_path / "ms" / "q").ok
    with Zrecord(tmp_path / "ms" / "w", read_only=True) as store:
        raw = np.empty(12, np.uint8)
        store.gather([0, 1, 2], raw, [0, 4, 8])
    assert raw.tobytes() == weights.tobytes()


@pytest.mark.parametrize("dtype", ["S3", "U3", ">U3"])
def test_texts_of_an_array_are_records(tmp_path: Path, dtype: str) -> None:
    """Its elements are Python's texts: what they are wide they know no more."""
    words = np.array([b"ab\0", b"", b"\0c", b"xyz"] if dtype == "S3" else ["ab", "", "ö", "xyz"], dtype)
    for number, source in enumerate((words, list(words), iter(words), words.tolist())):
        assert from_iterator(tmp_path / str(number), source, dtype) == 4
        assert all_same(RaggedDataset(tmp_path / str(number))[:], [words[i, ...] for i in range(4)])
    with RaggedDataset(tmp_path / "0") as ds:
        ds.append([words, words[:0], words[1]])
        assert all_same(ds[4:], [words, words[:0], words[1, ...]])
        with pytest.raises(ValueError, match="append: record 1: expected dtype .*3', found '.*4'"):
            ds.append([words, "long" if dtype != "S3" else b"long"])
    with DenseDataset(tmp_path / "dense", dtype, ()) as dense:
        dense.append(words.tolist())
        dense.append(list(words[:1]))
        assert same(dense[:], words[[0, 1, 2, 3, 0]])


def test_what_numpy_makes_of_trailing_zeros(tmp_path: Path) -> None:
    """Of fixed-width bytes the store keeps every byte; it is NumPy that leaves zeros at the end out of a single text."""
    words = np.array([b"a\0b\0\0", b"\0" * 5], "S5")
    from_numpy(tmp_path / "s", words)
    ds = DenseDataset(tmp_path / "s")
    assert ds[0] == b"a\0b"
    assert ds[[0]].tobytes() == b"a\0b\0\0"
    records = [b"a\0b\0\0", b"\0", b""]
    from_iterator(tmp_path / "bytes", records, np.uint8)
    assert [record.tobytes() for record in RaggedDataset(tmp_path / "bytes")] == records
    from_numpy(tmp_path / "void", words.view("V5"))
    assert bytes(DenseDataset(tmp_path / "void")[0]) == b"a\0b\0\0"


def test_one_structured_record(tmp_path: Path) -> None:
    rows = np.array([(1, (2.5, b"x")), (2, (-0.0, b"yz"))], [("id", ">i4"), ("in", [("v", "f8"), ("t", "S2")])])
    from_numpy(tmp_path / "s", rows)
    ds = DenseDataset(tmp_path / "s")
    assert ds[1]["in"]["t"] == b"yz"
    assert isinstance(ds[0], np.void)
    assert same(ds[[1, 0]]["in"]["v"], np.array([-0.0, 2.5]))
    with pytest.raises(ValueError, match=r"append: expected dtype \[\('id', '>i4'\), .*\], found '<f8'"):
        ds.append(np.zeros(2))
    # The same fields in another order or at other places are another dtype, whatever NumPy would make of it.
    with pytest.raises(ValueError, match="append: expected dtype"):
        ds.append(rows[["in", "id"]])


@pytest.mark.parametrize("unit", ["D", "s", "ms", "ns", "25us", "generic"])
@pytest.mark.parametrize("kind", ["M8", "m8"])
def test_times(tmp_path: Path, kind: str, unit: str) -> None:
    edges = np.array([-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1])  # the first is NaT
    times = edges.view(kind if unit == "generic" else f"{kind}[{unit}]")
    inside = np.zeros(6, [("a", "u1"), ("t", times.dtype)])
    inside["t"] = times
    for name, array in (("plain", times), ("inside", inside), ("swapped", times.astype(times.dtype.newbyteorder(">")))):
        from_numpy(tmp_path / name, array)
        assert same(DenseDataset(tmp_path / name)[:], array)
    with pytest.raises(ValueError, match="append: expected dtype"):
        DenseDataset(tmp_path / "plain").append(edges)


def test_every_dtype_of_ml_dtypes(tmp_path: Path) -> None:
    for scalar in NAMED:
        array = random_array(np.dtype(scalar), (5, 2), 1)
        from_numpy(tmp_path / scalar.__name__, array)
        assert same(DenseDataset(tmp_path / scalar.__name__, dtype=scalar)[:], array)
