"""Appends of packed batches, beside those of lists."""

from __future__ import annotations

import array
import functools
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from calls import calls
from dtype_samples import DTYPES, LAYOUTS, bits, random_array
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from loaderx import dictionary_gain, from_iterator, measured_dict, pad, train_dict
from loaderx.dataset import DenseDataset, MSDataset, Packed, RaggedDataset
from loaderx.dataset.packed import offsets_of
from loaderx.utils import arrays
from support import CODECS, Array, all_same, contents, unchanged


def packed_of(records: list[Array], dtype: Any) -> Packed:
    """The naive twin of `RaggedDataset.packed`."""
    values = np.frombuffer(b"".join(map(bits, records)), dtype)
    offsets = np.concatenate([[0], np.cumsum([record.size for record in records])]).astype(np.int64)
    return Packed(values, offsets, [record.shape for record in records])


@given(st.lists(st.integers(0, 2**31), max_size=20), st.sampled_from([list, "u4", "u8", "i8"]))
def test_offsets_are_exact(lengths: list[int], form: Any) -> None:
    offsets = offsets_of(lengths if form is list else np.array(lengths, form))
    assert offsets.dtype == np.int64
    assert offsets.tolist() == list(itertools.accumulate(lengths, initial=0))


@settings(max_examples=60)
@given(
    st.lists(npst.array_shapes(min_dims=0, max_dims=7, min_side=0, max_side=3), min_size=1, max_size=8),
    DTYPES,
    st.sampled_from(["raw", "zstd"]),
    st.integers(0, 99),
)
def test_a_packed_append_is_that_of_a_list(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, ...]], dtype: Any, codec: str, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("packed")
    records = [random_array(dtype, shape, seed + i) for i, shape in enumerate(shapes)]
    stores = [RaggedDataset(folder / name, dtype=dtype, codec=codec) for name in ("list", "packed", "again")]
    stores[0].append(records)
    assert stores[1].append(packed_of(records, dtype)) == 0
    # What was read packed is appended as it is.
    assert stores[2].append(stores[1].packed(slice(None))) == 0
    for store in stores:
        store.close()
    assert contents(stores[0].path, but="sync.zr") == contents(stores[1].path, but="sync.zr")
    for store in stores:
        with RaggedDataset(store.path) as read:
            assert [record.shape for record in read] == shapes
            assert [bits(record) for record in read] == [bits(record) for record in records]


@pytest.mark.parametrize("codec", CODECS)
def test_a_packed_append_follows_a_list(tmp_path: Path, codec: str, dictionary: bytes, records: list[Array]) -> None:
    with RaggedDataset(tmp_path / "ds", dtype=np.int32, codec=codec) as ds:
        if codec == "zstd_dict":
            ds.install_dict(dictionary)
        one_dimensional = Packed(np.arange(5, dtype=np.int32), np.array([0, 2, 2, 5]))
        assert ds.append(one_dimensional) == 0
        assert not list(ds.path.glob("*.shape"))
        assert ds.append(records) == 3
        assert ds.append(packed_of(records[::-1], np.int32)) == 12
        ds.append(one_dimensional)
    expected = [np.arange(2), np.arange(0), np.arange(2, 5)]
    with RaggedDataset(tmp_path / "ds") as ds:
        ones = [part.astype(np.int32) for part in expected]
        assert all_same(ds[:], [*ones, *records, *records[::-1], *ones])


@pytest.mark.parametrize(
    "offsets",
    [
        [0, 1, 4],
        (0, 1, 4),
        np.array([0, 1, 4], np.uint8),
        np.array([0, 1, 4], np.uint64),
        np.array([0, 1, 4], ">i8"),
        np.array([0, 9, 1, 9, 4, 9])[::2],
        array.array("l", [0, 1, 4]),
    ],
)
def test_offsets_are_any_integers(tmp_path: Path, offsets: Any) -> None:
    with RaggedDataset(tmp_path / "ds", dtype=np.int16) as ds:
        ds.append(Packed(np.arange(4, dtype=np.int16), offsets))
        assert [record.tolist() for record in ds] == [[0], [1, 2, 3]]


@pytest.mark.parametrize("layout", ["strided", "reversed", "broadcast", "unaligned", "read-only", "of a subclass"])
def test_values_of_every_layout(tmp_path: Path, layout: str) -> None:
    values = LAYOUTS[layout](np.arange(6, dtype=np.float32))
    before = values.copy()
    with RaggedDataset(tmp_path / "ds", dtype=np.float32) as ds:
        ds.append(Packed(values, np.array([0, 2, 6])))
        assert all_same(ds[:], [np.array(values[:2]), np.array(values[2:])])
    assert np.array_equal(values, before)


def test_values_of_other_packages(tmp_path: Path) -> None:
    class Foreign:
        def __init__(self, values: Array) -> None:
            self._values = values

        def __dlpack__(self, **options: Any) -> Any:
            return self._values.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self._values.__dlpack_device__()

    with RaggedDataset(tmp_path / "ds", dtype=np.int64) as ds:
        ds.append(Packed(Foreign(np.arange(3)), Foreign(np.array([0, 3]))))  # type: ignore[arg-type]
        ds.append(Packed(array.array("q", [7, 8]), [0, 1, 2]))  # type: ignore[arg-type]
        ds.append(Packed(np.arange(2, dtype=">i8"), np.array([0, 2])))
        assert [record.tolist() for record in ds] == [[0, 1, 2], [7], [8], [0, 1]]


def test_shapes_of_one_rank_are_an_array(tmp_path: Path) -> None:
    values = np.arange(10, dtype=np.uint8)
    for shapes in ([(2, 3), (4, 1)], [[2, 3], [4, 1]], np.array([[2, 3], [4, 1]]), np.array([[2, 3], [4, 1]], ">u2")):
        with RaggedDataset(tmp_path / str(len(list(tmp_path.iterdir()))), dtype=np.uint8) as ds:
            ds.append(Packed(values, np.array([0, 6, 10]), shapes))  # type: ignore[arg-type]
            assert all_same(ds[:], [values[:6].reshape(2, 3), values[6:].reshape(4, 1)])
    with RaggedDataset(tmp_path / "scalars", dtype=np.uint8) as ds:
        ds.append(Packed(values, np.arange(11), np.empty((10, 0), np.int64)))
        assert [record.shape for record in ds] == [()] * 10
        ds.append(Packed(values, np.array([0, 4, 10]), np.array([[4], [6]])))
        assert [record.shape for record in ds[-2:]] == [(4,), (6,)]


GOOD = np.arange(6, dtype=np.int32)
HUGE = 2**40


@pytest.mark.parametrize(
    ("packed", "error", "text"),
    [
        (Packed(GOOD.astype(np.int64), np.array([0, 6])), ValueError, "append: values: expected dtype '<i4', found '<i8'"),
        (Packed(GOOD.astype(object), np.array([0, 6])), TypeError, "append: values: expected dtype '<i4'"),
        (Packed(GOOD.reshape(2, 3), np.array([0, 6])), ValueError, r"values: expected shape \(items,\), found \(2, 3\)"),
        (Packed(GOOD[0], np.array([0, 1])), ValueError, r"values: expected shape \(items,\), found \(\)"),
        (Packed(GOOD, np.array([0.0, 6.0])), TypeError, "offsets: expected integers, found dtype '<f8'"),
        (Packed(GOOD, np.array([False, True])), TypeError, "offsets: expected integers, found dtype '|b1'"),
        (Packed(GOOD, np.array([[0, 6]])), ValueError, r"offsets: expected shape \(n \+ 1,\) for n records, found \(1, 2\)"),
        (Packed(GOOD, np.array([], int)), ValueError, r"offsets: expected shape \(n \+ 1,\) for n records, found \(0,\)"),
        (Packed(GOOD[:0], np.array([0])), ValueError, "append: expected at least one record, found none"),
        (Packed(GOOD, np.array([1, 6])), ValueError, "record 0: expected a begin at item 0, found 1"),
        (Packed(GOOD, np.array([-1, 6])), ValueError, "record 0: expected a begin at item 0, found -1"),
        (Packed(GOOD, np.array([0, 4, 3, 6])), ValueError, "record 1: expected an end at item 4 or behind, found 3"),
        (Packed(GOOD, np.array([0, -1, 6])), ValueError, "record 0: expected an end at item 0 or behind, found -1"),
        (Packed(GOOD, np.array([0, 2, 5])), ValueError, "record 1: expected an end at item 6, the last, found 5"),
        (Packed(GOOD, np.array([0, 2, 7])), ValueError, "record 1: expected an end at item 6, the last, found 7"),
        (Packed(GOOD, np.array([0, 2**64 - 1], np.uint64)), ValueError, "record 0: expected an end at item 6, the last"),
        (Packed(GOOD, np.array([0, 2, 6]), [(2,)]), ValueError, "expected a shape for each of 2 records, found 1"),
        (Packed(GOOD, np.array([0, 2, 6]), [(2,), (2, 3)]), ValueError, r"record 1: shape \(2, 3\) has 6 items, found 4"),
        (Packed(GOOD, np.array([0, 2, 6]), [(3,), (4,)]), ValueError, r"record 0: shape \(3,\) has 3 items, found 2"),
        (Packed(GOOD, np.array([0, 6]), [(1,) * 7 + (6,)]), ValueError, "record 0: expected at most 7 dimensions, found shape"),
        (Packed(GOOD[:0], np.array([0, 0]), [(0, HUGE)]), ValueError, "record 0: expected at most 4294967295 in a dimension"),
        (Packed(GOOD, np.array([0, 6]), [(-2, -3)]), ValueError, r"record 0: expected sizes from 0 up, found shape \(-2, -3\)"),
        (Packed(GOOD, np.array([0, 6]), [(HUGE // 256,) * 3]), ValueError, "record 0: .* in a dimension|more than 2.64 items"),
        (Packed(GOOD, np.array([0, 6]), cast(Any, [(2.0, 3)])), TypeError, r"record 0: expected a shape, .* found \(2.0, 3\)"),
        (Packed(GOOD, np.array([0, 6]), cast(Any, [6])), TypeError, "record 0: expected a shape, a tuple of sizes, found 6"),
        (Packed(GOOD, np.array([0, 6]), cast(Any, "23")), TypeError, "shapes: expected a list of tuples or an array, found str"),
        (Packed(GOOD, np.array([0, 6]), np.array([[2.0, 3.0]])), TypeError, "shapes: expected integers, found dtype float64"),
        (Packed(GOOD, np.array([0, 6]), np.array([6])), ValueError, r"shapes: expected shape \(1, rank\), found \(1,\)"),
        (Packed(GOOD, np.array([0, 6]), np.array([[2, 4]])), ValueError, r"record 0: shape \(2, 4\) has 8 items, found 6"),
        (Packed(GOOD, np.array([0, 6]), np.array([[-2, -3]])), ValueError, r"record 0: expected sizes from 0 up, found shape \(-2, -3\)"),
        (Packed(GOOD, np.array([0, 2, 6]), np.array([[2], [3]])), ValueError, r"record 1: shape \(3,\) has 3 items, found 4"),
        (Packed(GOOD, np.array([0, 6]), np.ones((1, 8), int)), ValueError, r"record 0: expected at most 7 dimensions, found shape \(1, 1"),
        (Packed(GOOD, np.array([0, 6]), np.empty((1, 0), int)), ValueError, r"record 0: shape \(\) has 1 items, found 6"),
        # NumPy can't have empty arrays of these shapes either, so nobody could read the record.
        (Packed(GOOD, np.array([0, 6, 6]), [(2, 3), (0, 2**31, 2**30)]), ValueError, "record 1: no array of dtype '<i4' can"),
        (Packed(GOOD[:0], np.array([0, 0]), np.array([[2**32 - 1] * 6 + [0]])), ValueError, "record 0: no array of dtype"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, packed: Any, error: type[Exception], text: str
) -> None:
    with RaggedDataset(tmp_path / "ds", dtype=np.int32) as ds:
        ds.append([np.arange(3, dtype=np.int32)])
        ds.sync()
        with unchanged(ds.path), pytest.raises(error, match=text):
            ds.append(packed)
        assert ds.append(Packed(GOOD, np.array([0, 6]))) == 1


def test_the_largest_empty_records(tmp_path: Path) -> None:
    shapes = [(0, 2**31, 2**29), (2**32 - 1, 0, 2**29), (0,), (0, 0, 7)]
    with RaggedDataset(tmp_path / "ds", dtype=np.int32) as ds:
        ds.append(Packed(GOOD[:0], np.zeros(5, int), shapes))
        assert [record.shape for record in ds] == ds.shapes(slice(None)) == shapes


class Meddling(list[Any]):
    """Shapes; while they are looked at, another number goes where the offsets are."""

    def __init__(self, shapes: list[Any], offsets: Array) -> None:
        super().__init__(shapes)
        self.offsets = offsets

    def __iter__(self) -> Any:
        self.offsets[1] = 5
        return super().__iter__()


@pytest.mark.parametrize("dtype", ["i8", "u8", "i4", ">i8"])
def test_offsets_that_change_while_they_are_checked_are_those_that_were_given(tmp_path: Path, dtype: str) -> None:
    offsets = np.array([0, 2, 6], dtype)
    with RaggedDataset(tmp_path / "ds", dtype=np.int32) as ds:
        ds.append(Packed(GOOD, offsets, Meddling([(2, 1), (2, 2)], offsets)))
        assert offsets[1] == 5
        assert all_same(ds[:], [GOOD[:2].reshape(2, 1), GOOD[2:].reshape(2, 2)])


def test_a_record_that_is_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loaderx.dataset.ragged.MAX_RECORD_LEN", 10)
    with RaggedDataset(tmp_path / "ds", dtype=np.int32) as ds:
        ds.append(Packed(GOOD, np.array([0, 2, 4, 6])))
        with unchanged(ds.path), pytest.raises(ValueError, match="record 1: expected at most 10 bytes, found 12"):
            ds.append(Packed(GOOD, np.array([0, 2, 5, 6])))


SHAPES_OF: list[Callable[[int], Any]] = [lambda n: None, lambda n: [(2, 2)] * n, lambda n: np.full((n, 2), 2)]


@pytest.mark.parametrize("shapes", SHAPES_OF)
def test_no_step_in_python_for_each_record(tmp_path: Path, shapes: Callable[[int], Any]) -> None:
    def count(work: Callable[[Any], Any], of: Callable[[int], Any]) -> list[int]:
        arguments = [of(10), of(3000)]
        return [calls(functools.partial(work, argument)) for argument in arguments]

    def batch(n: int) -> Packed:
        return Packed(np.zeros(4 * n, np.int32), np.arange(n + 1) * 4, shapes(n))

    def same_number(counts: list[int]) -> bool:
        return counts[0] == counts[1]

    with RaggedDataset(tmp_path / "ds", dtype=np.int32) as ds:
        assert same_number(count(ds.append, batch))
        assert same_number(count(ds.append, lambda n: [np.zeros((2, 2), np.int32)] * n))
        for read in (ds.packed, ds.__getitem__, ds.lengths, ds.shapes):
            assert same_number(count(read, lambda n: slice(0, n)))
        assert same_number(count(pad, batch))
        numbers, records = itertools.count(), ds[:3000]
        assert same_number(count(lambda n: from_iterator(tmp_path / f"{next(numbers)}", records[:n], "i4"), int))


def test_several_streams_take_packed_batches(tmp_path: Path) -> None:
    with RaggedDataset(tmp_path / "ms" / "tokens", dtype=np.int32), RaggedDataset(tmp_path / "ms" / "more", dtype="u1"):
        pass
    with MSDataset(tmp_path / "ms") as ds:
        assert ds.append({"tokens": Packed(GOOD, np.array([0, 2, 6])), "more": [b"ab", b""]}) == 0
        with pytest.raises(ValueError, match=r"expected equally many records .*'tokens': 1"):
            ds.append({"tokens": Packed(GOOD, np.array([0, 6])), "more": [b"ab", b""]})
        with pytest.raises(ValueError, match="stream 'tokens': append: record 0: expected a begin at item 0"):
            ds.append({"tokens": Packed(GOOD, np.array([2, 6])), "more": [b"ab"]})
        assert len(ds) == 2
        assert [record.tolist() for record in ds["tokens"][:]] == [[0, 1], [2, 3, 4, 5]]


def test_from_iterator_takes_packed_batches(tmp_path: Path) -> None:
    batches = [
        Packed(GOOD, np.array([0, 2, 6])),
        Packed(GOOD[:0], np.array([0])),
        Packed(GOOD, np.array([0, 6]), [(2, 3)]),
    ]
    assert from_iterator(tmp_path / "ds", iter(batches), np.int32) == 3
    with RaggedDataset(tmp_path / "ds") as ds:
        assert all_same(ds[:], [GOOD[:2], GOOD[2:], GOOD.reshape(2, 3)])


@pytest.mark.parametrize(
    ("source", "error", "text"),
    [
        ([Packed(GOOD, np.array([0, 6])), GOOD], TypeError, "batch 1: expected a Packed as the first one, found ndarray"),
        ([GOOD, Packed(GOOD, np.array([0, 6]))], TypeError, "record 1: expected a record, found a Packed"),
        ([Packed(GOOD, np.array([0, 6])), Packed(GOOD, np.array([0, 5]))], ValueError, "record 0: expected an end at item 6"),
    ],
)  # fmt: skip
def test_a_batch_that_does_not_fit_leaves_nothing(
    tmp_path: Path, source: list[Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        from_iterator(tmp_path / "ds", source, np.int32)
    assert not (tmp_path / "ds").exists()


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=30), st.integers(1, 400))
def test_from_iterator_in_blocks_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, forms: list[tuple[int, int]], limit: int
) -> None:
    records = [np.arange(size**rank, dtype=np.int32).reshape((size,) * rank) for size, rank in forms]
    folder = tmp_path_factory.mktemp("blocks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "PACKED_BYTES", limit)
        # Every second one has to be made an array of first.
        given = (record if i % 2 else record.astype(">i4") for i, record in enumerate(records))
        assert from_iterator(folder / "ds", given, np.int32) == len(records)
    with RaggedDataset(folder / "ds") as ds:
        assert all_same(ds[:], records)


class Answering:
    """What gives an array when asked, and is no array otherwise."""

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return self.array


def test_batches_of_an_iterator_are_of_any_package(tmp_path: Path) -> None:
    def batches() -> Any:
        for _ in range(2):
            yield Packed(
                cast(Any, Answering(GOOD)), cast(Any, Answering([0, 2, 6])), cast(Any, Answering([[2, 1], [2, 2]]))
            )
            yield Packed(cast(Any, Answering(GOOD[:0])), cast(Any, Answering([0])))

    assert from_iterator(tmp_path / "ds", batches(), np.int32) == 4
    with RaggedDataset(tmp_path / "ds") as ds:
        assert all_same(ds[:], [GOOD[:2].reshape(2, 1), GOOD[2:].reshape(2, 2)] * 2)


@pytest.mark.parametrize("part", ["values", "offsets"])
def test_batches_that_have_no_arrays_name_themselves(tmp_path: Path, part: str) -> None:
    batch = Packed(**{"values": GOOD, "offsets": np.array([0, 6]), part: cast(Any, None)})
    with pytest.raises(TypeError, match=f"append: {part}: expected"):
        from_iterator(tmp_path / "ds", [batch], np.int32)
    assert list(tmp_path.iterdir()) == []


def test_a_packed_batch_is_nowhere_taken_for_a_list_of_its_arrays(tmp_path: Path) -> None:
    records = Packed(np.arange(4), np.arange(4), np.arange(4))
    (ragged := RaggedDataset(tmp_path / "ragged", dtype=np.int64)).append([np.arange(2)])
    (dense := DenseDataset(tmp_path / "dense", dtype=np.int64, item_shape=(4,))).append(np.ones((1, 4), np.int64))
    everywhere: list[Callable[[], Any]] = [
        lambda: ragged.append([records]),
        lambda: dense.append(records),
        lambda: from_iterator(tmp_path / "new", records, np.int64),
        lambda: from_iterator(tmp_path / "new", [np.arange(2), records], np.int64),
        lambda: train_dict(records),
        lambda: measured_dict(records),
        lambda: dictionary_gain(records, b""),
    ]
    for function in everywhere:
        with pytest.raises(TypeError, match="expected .*, found a Packed"):
            function()
    assert (len(ragged), len(dense), (tmp_path / "new").exists()) == (1, 1, False)
    for nothing in (None, 5):
        with pytest.raises(TypeError, match="append: expected a list of records, found one"):
            ragged.append(nothing)
        with pytest.raises(TypeError, match="pad: expected a list of records, found one"):
            pad(cast(Any, nothing))


@settings(max_examples=40)
@given(data=st.data())
def test_batches_of_any_size_come_together(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """`from_iterator` holds small batches until they are worth an append, whatever the source does with its memory then."""
    shapes = st.lists(st.sampled_from([(0,), (3,), (2, 2), (), (50,)]), max_size=4)
    wanted = [
        [np.full(shape, 10 * at + i, np.int16) for i, shape in enumerate(one)]
        for at, one in enumerate(data.draw(st.lists(shapes, min_size=1, max_size=8)))
    ]
    buffer = np.zeros(500, np.int16)

    def batches() -> Iterator[Packed]:
        for records in wanted:
            offsets = np.concatenate([[0], np.cumsum([record.size for record in records])]).astype(np.int64)
            values = buffer[: offsets[-1]]
            values[:] = np.concatenate([np.empty(0, np.int16), *(record.reshape(-1) for record in records)])
            plain = all(record.ndim == 1 for record in records)
            yield Packed(values, offsets, None if plain else [record.shape for record in records])

    path = tmp_path_factory.mktemp("batches") / "ds"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrays, "PACKED_BYTES", data.draw(st.sampled_from([1, 1000, 4000, 1 << 20])))
        count = from_iterator(path, batches(), np.int16)
    flat = [record for records in wanted for record in records]
    assert count == len(flat)
    with RaggedDataset(path, read_only=True) as ds:
        assert all_same(ds[:], flat)
