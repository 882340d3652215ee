"""Dense datasets. That indexing equals NumPy's is a property; see also `test_model.py` for changes and `test_bad_input.py`."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from loaderx.dataset import DenseDataset
from support import CODECS, READ_OPTIONS, Array, all_same, contents, same
from test_index import length_and_index

DTYPES = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="<"),
    npst.integer_dtypes(endianness=">"),
    npst.floating_dtypes(),
    npst.complex_number_dtypes(sizes=(64, 128)),
    npst.datetime64_dtypes(),
    npst.timedelta64_dtypes(),
    npst.byte_string_dtypes(min_len=1),
    npst.unicode_string_dtypes(min_len=1),
)
SHAPES = st.one_of(st.just(()), npst.array_shapes(max_dims=3, max_side=4, min_side=0))


def random_array(dtype: Any, shape: tuple[int, ...], seed: int) -> Array:
    """Random bits, but for text and bools, whose bits have rules."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape)) * dtype.itemsize
    if dtype.kind == "U":
        bits: Array = rng.integers(32, 96, size // 4).astype(dtype.byteorder + "u4")
    else:
        bits = rng.integers(0, 2 if dtype.kind == "b" else 256, size, np.uint8)
    found: Array = bits.view(dtype).reshape(shape)
    return found


def layouts(array: Array) -> dict[str, Array]:
    """The same values in every memory order that an append may be given."""
    padded = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
    padded[::2] = array
    buffer = np.zeros(array.nbytes + 1, np.uint8)
    unaligned = buffer[1:].view(array.dtype)[: array.size].reshape(array.shape) if array.nbytes else array
    unaligned[...] = array
    frozen = array.copy()
    frozen.flags.writeable = False
    return {
        "C": array.copy(),
        "Fortran": np.asfortranarray(array),
        "strided": padded[::2],
        "reversed": array[::-1].copy()[::-1],
        "unaligned": unaligned,
        "read-only": frozen,
        "byte-swapped": array.astype(array.dtype.newbyteorder()),
    }


@settings(max_examples=60)
@given(
    DTYPES,
    SHAPES,
    length_and_index(),
    st.sampled_from(["C", "Fortran", "strided", "reversed", "unaligned", "read-only", "byte-swapped"]),
    st.data(),
)
def test_indexing_equals_numpy(dtype: Any, item_shape: Any, case: Any, layout: str, data: st.DataObject) -> None:
    length, index = case
    array = random_array(dtype, (length, *item_shape), data.draw(st.integers(0, 99)))
    given_array = layouts(array)[layout]
    untouched = given_array.tobytes()
    with tempfile.TemporaryDirectory() as folder, DenseDataset(f"{folder}/ds", dtype, item_shape, "raw") as ds:
        if length:
            assert ds.append(given_array) == 0
        assert given_array.tobytes() == untouched
        assert len(ds) == length
        got = ds[index]
        assert same(got, array[list(index) if isinstance(index, (tuple, range)) else index])
        if not isinstance(index, int):
            assert got.flags.c_contiguous
            assert got.flags.writeable
            assert got.flags.owndata
            assert same(ds.__getitems__(index), got)


@pytest.mark.parametrize("codec", CODECS)
def test_write_close_open_read(tmp_path: Path, codec: str, dictionary: bytes, rows: Array) -> None:
    with DenseDataset(tmp_path / "ds", dtype="<f4", item_shape=(2, 3), codec=codec) as ds:
        if codec == "zstd_dict":
            assert ds.install_dict(dictionary) == len(dictionary)
        assert ds.append(rows[:12]) == 0
        assert ds.append(rows[12:]) == 12
    for options in READ_OPTIONS:
        with DenseDataset(tmp_path / "ds", **options) as ds:
            assert (len(ds), ds.dtype.str, ds.item_shape, ds.codec) == (20, "<f4", (2, 3), codec)
            assert ds.has_dict() == (codec == "zstd_dict")
            assert same(ds[:], rows)
            assert same(ds[0, 5, 2], rows[[0, 5, 2]])
            assert same(ds[-1], rows[-1])


def test_one_record(dense: DenseDataset, rows: Array, tmp_path: Path) -> None:
    one = dense[3]
    assert same(one, rows[3])
    assert one.flags.owndata
    assert one.flags.writeable
    with DenseDataset(tmp_path / "labels", dtype=np.int64, item_shape=()) as labels:
        labels.append([5, 6, 7])
        assert same(labels[0, 2], np.array([5, 7]))
        assert type(labels[1]) is np.int64
        assert labels[1] == 6


def test_whatever_asarray_takes(tmp_path: Path) -> None:
    with DenseDataset(tmp_path / "a", dtype=np.float64, item_shape=(2,)) as ds:
        ds.append([[1.0, 2.0], [3.0, 4.0]])
        ds.append(((5.0, 6.0),))
        assert ds[:].tolist() == [[1, 2], [3, 4], [5, 6]]
    with DenseDataset(tmp_path / "b", dtype=bool, item_shape=()) as ds:
        ds.append([True, np.False_])
        assert ds[:].tolist() == [True, False]


def test_a_broadcast_array(tmp_path: Path) -> None:
    same_row = np.broadcast_to(np.arange(3, dtype=np.int16), (5, 3))
    with DenseDataset(tmp_path / "a", dtype=np.int16, item_shape=(3,)) as ds:
        ds.append(same_row)
        assert same(ds[:], same_row)


def test_datetimes_keep_their_bits(tmp_path: Path) -> None:
    times = np.array(["NaT", "2262-04-11T23:47:16.854775807", "1677-09-21T00:12:43.145224193"], "<M8[ns]")
    with DenseDataset(tmp_path / "a", dtype=times.dtype, item_shape=()) as ds:
        ds.append(times)
        assert same(ds[:], times)


@pytest.mark.parametrize("item_shape", [(0,), (0, 3), (2, 0)])
def test_items_without_elements(tmp_path: Path, item_shape: tuple[int, ...]) -> None:
    with DenseDataset(tmp_path / "a", dtype=np.int32, item_shape=item_shape) as ds:
        ds.append(np.zeros((4, *item_shape), np.int32))
        assert ds[1:3].shape == (2, *item_shape)
        assert ds[0].shape == item_shape
        assert ds.lengths([0, 1]).tolist() == [0, 0]
    assert len(DenseDataset(tmp_path / "a")) == 4


def test_an_empty_store(tmp_path: Path) -> None:
    with DenseDataset(tmp_path / "a", dtype=np.int32, item_shape=(3,)) as ds:
        assert len(ds) == 0
        assert ds[:].shape == (0, 3)
        assert ds[[]].shape == (0, 3)
        assert list(ds) == []
        with pytest.raises(IndexError, match="index 0 is out of range for 0 records"):
            ds[0]


def test_iteration(dense: DenseDataset, rows: Array) -> None:
    assert all_same(list(dense), list(rows))
    iterator = iter(dense)
    next(iterator)
    dense.append(rows)
    assert len(list(iterator)) == 19


def test_lengths(dense: DenseDataset) -> None:
    assert same(dense.lengths([0, -1]), np.array([24, 24], np.uint32))
    assert same(dense.lengths(2), np.array([24], np.uint32))


def test_others_see_an_append_after_refresh(dense: DenseDataset, rows: Array) -> None:
    other = DenseDataset(dense.path)
    dense.append(rows[:2])
    assert (len(dense), len(other)) == (22, 20)
    assert other.refresh() == len(other) == 22
    assert same(other[20:], rows[:2])


def test_repr(dense: DenseDataset) -> None:
    assert repr(dense) == f"DenseDataset({str(dense.path)!r}, len=20, dtype='<f4', item_shape=(2, 3), codec='zstd')"
    dense.close()
    assert "closed" in repr(dense)
    with pytest.raises(ValueError, match="closed"):
        dense[0]


def test_delete_compact_stats(dense: DenseDataset, rows: Array) -> None:
    dense.delete(np.arange(0, 20, 2))
    assert len(dense) == 10
    assert dense.stats()["records"] == 10
    assert dense.stats()["reclaimable"] > 0
    dense.compact()
    assert dense.stats()["reclaimable"] == 0
    assert sorted(record[0, 0] for record in dense) == sorted(rows[1::2, 0, 0])
    dense.delete([])
    dense.delete(-1)
    assert len(dense) == 9


def test_a_reader_pickles_and_a_writer_does_not(
    dense: DenseDataset, rows: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(dense.path.parent)
    relative = DenseDataset("dense", io="pread")
    pickled = pickle.dumps(relative)
    assert len(pickled) < 4096
    monkeypatch.chdir("/")
    copy = pickle.loads(pickled)
    assert same(copy[:], rows)
    assert copy._options["io"] == "pread"
    copy.close()
    dense.append(rows)
    with pytest.raises(TypeError, match="cannot pickle this DenseDataset: it has written to"):
        pickle.dumps(dense)
    dense.close()
    assert len(pickle.loads(pickled)) == 40


def test_what_a_pickle_never_does(dense: DenseDataset) -> None:
    pickled = pickle.dumps(dense)
    dense.close()
    for file in dense.path.iterdir():
        file.unlink()
    with pytest.raises(FileNotFoundError, match="the pickled dataset is gone"):
        pickle.loads(pickled)
    assert contents(dense.path) == {}
    DenseDataset(dense.path, dtype=np.int8, item_shape=()).close()
    with pytest.raises(ValueError, match="expected dtype '<f4', found a store of '|i1'"):
        pickle.loads(pickled)
