"""recode, concat, select and split against their naive twins: lists of records."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import loaderx
import numpy as np
import pytest
from fixtures.stores import RECENT, check, expected, names, unpacked
from hypothesis import given, settings
from hypothesis import strategies as st
from loaderx import (
    DenseDataset,
    MSDataset,
    RaggedDataset,
    StoreLockedError,
    Zrecord,
    ZrecordError,
    concat,
    recode,
    select,
    split,
    verify,
)
from loaderx.dataset import schema as schemas
from loaderx.dataset.streams import KINDS
from loaderx.sampler import Sampler
from loaderx.utils import from_iterator, from_numpy
from support import CODECS, Array, all_same, images, in_memory, unchanged

MEMORY = in_memory()
"""A sync takes no time there."""
METADATA = {"made by": "us", "labels": [1, 2]}
DTYPES = ("u1", "<i4", ">f8", "?", "<M8[us]", "S3", "<U2", "V5", [("a", "<i2"), ("b", ">f4", (2,))])


def dense(path: Path, records: Array, codec: str, level: int | None = None) -> None:
    """A new store of the rows."""
    with DenseDataset(path, records.dtype, records.shape[1:], codec, METADATA, level=level) as dataset:
        fill(dataset, records)


def ragged(path: Path, records: Sequence[Array], dtype: Any, codec: str) -> None:
    """A new store of the records."""
    with RaggedDataset(path, dtype, codec, METADATA) as dataset:
        fill(dataset, records)


def fill(dataset: Any, records: Any) -> None:
    """Append what there is; a store with a dictionary gets one."""
    if len(records):
        if dataset.codec == "zstd_dict":
            dataset.install_dict(DICTIONARY)
        dataset.append(records)


DICTIONARY = loaderx.train_dict(images(2000), tier="fast")


def read(path: Path) -> list[Array]:
    """All records of a store."""
    with KINDS[schemas.read(path).kind](path, read_only=True) as dataset:
        assert dataset.metadata == METADATA
        return list(dataset[:])


def values(dtype: Any, shape: tuple[int, ...], seed: int) -> Array:
    """Any bits that are values of the dtype."""
    kind = np.dtype(dtype)
    count = int(np.prod(shape, dtype=int))
    if kind.kind == "U":
        return np.array(["ab", "c", ""], kind)[np.arange(count) % 3].reshape(shape)
    raw = np.random.default_rng(seed).integers(0, 2 if kind.kind == "b" else 256, count * kind.itemsize, np.uint8)
    made: Array = raw.view(kind).reshape(shape)
    return made


@st.composite
def stores(draw: st.DrawFn) -> tuple[str, Any, list[Array]]:
    """A kind, a dtype, and records."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    count = draw(st.integers(0, 12))
    shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
    if draw(st.booleans()):
        return "dense", dtype, list(values(dtype, (count, *draw(shapes)), count))
    flat = draw(st.booleans())
    chosen = [(draw(st.integers(0, 9)),) if flat else draw(shapes) for _ in range(count)]
    return "ragged", dtype, [values(dtype, shape, i) for i, shape in enumerate(chosen)]


def written(path: Path, store: tuple[str, Any, list[Array]], codec: str, item_shape: tuple[int, ...] = ()) -> Path:
    """The store on disk."""
    kind, dtype, records = store
    if kind == "dense":
        # np.stack would make structures native.
        rows = np.empty((len(records), *(records[0].shape if records else item_shape)), dtype)
        for row, record in enumerate(records):
            rows[row] = record
        dense(path, rows, codec)
    else:
        ragged(path, records, dtype, codec)
    return path


def index_forms(length: int) -> st.SearchStrategy[Any]:
    """What selects records, in every form."""
    one = st.integers(-length, length - 1) if length else st.nothing()
    lists = st.lists(one, max_size=2 * length) if length else st.just([])
    return st.one_of(
        lists,
        lists.map(lambda chosen: np.array(chosen, np.int64)),
        lists.map(lambda chosen: tuple(chosen)),
        st.slices(length),
        st.lists(st.booleans(), min_size=length, max_size=length).map(lambda bools: np.array(bools, bool)),
        one,
    )


def picked(records: list[Array], index: Any) -> list[Array]:
    """The naive selection."""
    form = index if isinstance(index, (int, slice, np.ndarray)) else np.array(index, int)
    places = np.arange(len(records))[form]
    return [records[i] for i in np.atleast_1d(places)]


@settings(max_examples=40)
@given(store=stores(), codec=st.sampled_from(CODECS), into=st.sampled_from([None, "raw", "zstd"]), data=st.data())
def test_recode_and_select(store: Any, codec: str, into: str | None, data: st.DataObject) -> None:
    records = store[2]
    index = data.draw(index_forms(len(records)))
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        root = Path(directory)
        written(root / "src", store, codec)
        with unchanged(root / "src"):
            assert recode(root / "src", root / "recoded", into).records == len(records)
            assert all_same(read(root / "recoded"), records)
            want = picked(records, index)
            assert select(root / "src", root / "selected", index, into).records == len(want)
            assert all_same(read(root / "selected"), want)
        for name in ("recoded", "selected"):
            with Zrecord(root / name, read_only=True) as plain:
                assert plain.codec == (into or codec)
            assert verify(root / name).ok
        assert sorted(path.name for path in root.iterdir()) == ["recoded", "selected", "src"]


@settings(max_examples=25)
@given(store=stores(), cuts=st.lists(st.integers(0, 12), min_size=1, max_size=3), codecs=st.permutations(CODECS))
def test_concat(store: Any, cuts: list[int], codecs: list[str]) -> None:
    kind, dtype, records = store
    shape = records[0].shape if records else ()
    bounds = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        root = Path(directory)
        sources = [
            written(root / f"src{n}", (kind, dtype, records[a:b]), codecs[n % 3], shape)
            for n, (a, b) in enumerate(itertools.pairwise(bounds))
        ]
        into = "raw" if codecs[0] == "zstd_dict" else None
        assert concat([*sources, sources[0]], root / "dst", into).records == len(records) + bounds[1]
        assert all_same(read(root / "dst"), records + records[: bounds[1]])


@settings(max_examples=25)
@given(
    store=stores(),
    weights=st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any),
    seed=st.integers(0, 2**64 - 1),
    shuffle=st.booleans(),
)
def test_split(store: Any, weights: list[int], seed: int, shuffle: bool) -> None:
    records = store[2]
    fractions = {f"p{n}": weight / sum(weights) for n, weight in enumerate(weights)}
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        root = Path(directory)
        written(root / "src", store, "zstd")
        done = split(root / "src", root / "dst", fractions, seed, shuffle)
        assert sum(done.parts.values()) == done.records == len(records)
        got = {name: read(root / "dst" / name) for name in fractions}
        for name, fraction in fractions.items():
            assert len(got[name]) == done.parts[name]
            assert abs(done.parts[name] - fraction * len(records)) < 1
        order = np.arange(len(records))
        if shuffle and records:
            sampler = Sampler(len(records), 1, Sampler.Mode.CYCLIC, seed)
            order = np.array([int(sampler.batch_at(q)[0]) for q in range(len(records))])
        start = 0
        for name, count in done.parts.items():
            assert all_same(got[name], [records[i] for i in sorted(order[start : start + count])])
            start += count


def test_largest_remainders(tmp_path: Path) -> None:
    from_numpy(tmp_path / "src", np.arange(10))
    parts = {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}
    assert split(tmp_path / "src", tmp_path / "thirds", parts).parts == {"a": 4, "b": 3, "c": 3}
    parts = {"a": 0.24, "b": 0.69, "c": 0.07}
    assert split(tmp_path / "src", tmp_path / "others", parts).parts == {"a": 2, "b": 7, "c": 1}


def test_split_by_numbers_and_by_indices(tmp_path: Path, rows: Array) -> None:
    from_numpy(tmp_path / "src", rows)
    split(tmp_path / "src", tmp_path / "numbers", {"a": 15, "b": 5, "c": 0}, shuffle=False)
    assert np.array_equal(DenseDataset(tmp_path / "numbers" / "a")[:], rows[:15])
    assert np.array_equal(DenseDataset(tmp_path / "numbers" / "b")[:], rows[15:])
    assert len(DenseDataset(tmp_path / "numbers" / "c")) == 0
    split(tmp_path / "src", tmp_path / "indices", {"a": slice(5, None), "b": [4, 3, 2, 1, 0]})
    assert np.array_equal(DenseDataset(tmp_path / "indices" / "b")[:], rows[4::-1])
    cases: list[tuple[Any, type[Exception], str]] = [
        ({"a": 0.5, "b": 0.4}, ValueError, "add up to 1"),
        ({"a": 1.5, "b": -0.5}, ValueError, "from 0 to 1, found 1.5"),
        ({"a": float("nan")}, ValueError, "from 0 to 1, found nan"),
        ({"a": 10, "b": 11}, ValueError, "add up to 20 records"),
        ({"a": 10, "b": 0.5}, TypeError, "all fractions"),
        ({"a": slice(11), "b": slice(10, None)}, ValueError, "record 10 is in 'a' and in 'b'"),
        ({"a": [*range(20), 3]}, ValueError, "record 3 is in 'a' more than once"),
        ({"a": slice(3), "b": slice(5, None)}, ValueError, "record 3 in none, and 1 others"),
        ({"a": [20]}, IndexError, "out of range"),
        ({"../a": 1.0}, ValueError, "parts: expected names of child directories"),
        ({}, ValueError, "parts: expected at least one, found none"),
        ([("a", 1.0)], TypeError, "a mapping"),
    ]
    for parts, error, text in cases:
        with pytest.raises(error, match=text):
            split(tmp_path / "src", tmp_path / "dst", parts)
    with pytest.raises(ValueError, match="seed"):
        split(tmp_path / "src", tmp_path / "dst", {"a": 1.0}, -1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["indices", "numbers", "src"]


@pytest.mark.parametrize(("version", "name"), [(version, name) for version in RECENT for name in names(version)])
def test_stores_of_1_5(tmp_path: Path, version: str, name: str) -> None:
    store = unpacked(version, tmp_path / "theirs", name) / name
    with unchanged(store):
        recode(store, tmp_path / "recoded")
        check(tmp_path / "recoded", name)
        concat([store, store], tmp_path / "twice", "raw")
        count = len(expected(name))
        select(tmp_path / "twice", tmp_path / "half", slice(count, None), "zstd")
        split(store, tmp_path / "split", {"all": 1.0}, shuffle=False)
    check(tmp_path / "split" / "all", name)
    content, _, *rest = name.split("-")
    check(tmp_path / "half", "-".join([content, "zstd", *rest]))


def test_plain_records(tmp_path: Path) -> None:
    with Zrecord(tmp_path / "src", "raw") as store:
        store.append(b"abcdef", [0, 3, 3])
    concat([tmp_path / "src", Zrecord(tmp_path / "src", read_only=True)], tmp_path / "dst", "zstd", level=5)
    with Zrecord(tmp_path / "dst", read_only=True) as copied:
        assert copied.gather_packed(np.arange(6, dtype=np.uint64))[0].tobytes() == b"abcdefabcdef"
        assert copied.level == 5
    assert not (tmp_path / "dst" / "schema.msgpack").exists()
    recode(tmp_path / "dst", tmp_path / "same")
    assert Zrecord(tmp_path / "same", read_only=True).level == 5


def test_streams(tmp_path: Path, rows: Array) -> None:
    from_numpy(tmp_path / "src" / "a", rows)
    from_iterator(tmp_path / "src" / "b", list(rows), rows.dtype, codec="raw", schema={"k": 1})
    told: list[tuple[int, int]] = []
    with unchanged(tmp_path / "src"):
        recode(tmp_path / "src", tmp_path / "recoded", "zstd", progress=lambda *at: told.append(at))
        split(tmp_path / "src", tmp_path / "split", {"t": 0.75, "v": 0.25})
        select(MSDataset(tmp_path / "src", ["b"], read_only=True), tmp_path / "selected", [7, 7])
    concat([tmp_path / "split" / "t", tmp_path / "split" / "v"], tmp_path / "back")
    assert (told[0], told[-1]) == ((0, 80), (80, 80))
    assert told == sorted(told)
    with MSDataset(tmp_path / "recoded") as streams:
        assert np.array_equal(streams["a"][:], np.stack(streams["b"][:]))
        assert {stream.codec for stream in streams.streams.values()} == {"zstd"}
        assert streams["b"].metadata == {"k": 1}
    with MSDataset(tmp_path / "back") as streams:
        assert np.array_equal(streams["a"][:], np.stack(streams["b"][:]))
        assert sorted(streams["a"][:][:, 0, 0].tolist()) == rows[:, 0, 0].tolist()
        assert streams["b"].codec == "raw"
    with MSDataset(tmp_path / "selected") as streams:
        assert streams.names == ["b"]
        assert np.array_equal(np.stack(streams["b"][:]), rows[[7, 7]])
    with pytest.raises(ValueError, match="belongs to one stream"):
        recode(tmp_path / "src", tmp_path / "dst", "zstd_dict", dict_bytes=DICTIONARY)
    with DenseDataset(tmp_path / "src" / "a") as alone:
        alone.append(rows[:1])
    with pytest.raises(ValueError, match="streams of one length"):
        recode(tmp_path / "src", tmp_path / "dst")
    assert not (tmp_path / "dst").exists()


def test_what_can_not_be_one_store(tmp_path: Path, rows: Array) -> None:
    from_numpy(tmp_path / "a", rows, schema={"k": 1, "mine": 2})
    from_numpy(tmp_path / "b", rows.astype(np.float64))
    from_numpy(tmp_path / "c", rows[:, 0])
    from_iterator(tmp_path / "d", list(rows), rows.dtype)
    from_numpy(tmp_path / "e", rows, schema={"k": 2, "theirs": 3})
    from_numpy(tmp_path / "s" / "x", rows)
    Zrecord(tmp_path / "z").close()
    for other, text in (("b", "<f8"), ("c", r"shape \(3,\)"), ("d", "ragged"), ("s", "the streams"), ("z", "plain")):
        with pytest.raises(ValueError, match=f"{text}.* in .*{other}") as error:
            concat([tmp_path / "a", tmp_path / other], tmp_path / "dst")
        assert str(tmp_path / "a") in str(error.value)
    with pytest.raises(ValueError, match=r"e: schema: k is 2, and 1 in .*a"):
        concat([tmp_path / "a", tmp_path / "e"], tmp_path / "dst")
    concat([tmp_path / "a", tmp_path / "e"], tmp_path / "dst", schema={"k": [1, 2]})
    assert DenseDataset(tmp_path / "dst").metadata == {"k": [1, 2], "mine": 2, "theirs": 3}
    with pytest.raises(ValueError, match="at least one store"):
        concat([], tmp_path / "none")
    with pytest.raises(TypeError, match="a list of stores"):
        concat(str(tmp_path / "a"), tmp_path / "none")


def test_arguments(tmp_path: Path, rows: Array) -> None:
    from_numpy(tmp_path / "src", rows)
    calls: list[tuple[dict[str, Any], str]] = [
        ({"codec": "flate"}, "unknown codec"),
        ({"codec": "zstd", "dict_tier": "fast"}, "dict_tier: expected none"),
        ({"dict_bytes": DICTIONARY}, "dict_bytes: expected none"),
        ({"codec": "zstd_dict", "dict_tier": "huge"}, "tier: expected one of"),
        ({"codec": "zstd_dict", "dict_tier": "fast", "dict_bytes": DICTIONARY}, "one of them"),
        ({"level": 99}, "level"),
    ]
    every: list[Callable[..., Any]] = [
        recode,
        lambda src, dst, **options: select(src, dst, [0], **options),
        lambda src, dst, **options: concat([src], dst, **options),
        lambda src, dst, **options: split(src, dst, {"all": 1.0}, **options),
    ]
    for function in every:
        for options, text in calls:
            with pytest.raises(ValueError, match=text):
                function(tmp_path / "src", tmp_path / "dst", **options)
        with pytest.raises(FileExistsError):
            function(tmp_path / "src", tmp_path / "src")
        with pytest.raises(ValueError, match="outside of"):
            function(tmp_path / "src", tmp_path / "src" / "dst")
        with pytest.raises(FileNotFoundError):
            function(tmp_path / "nothing", tmp_path / "dst")
    assert [path.name for path in tmp_path.iterdir()] == ["src"]


def test_nobody_deletes_meanwhile_and_what_is_appended_is_left_out(tmp_path: Path, rows: Array) -> None:
    from_numpy(tmp_path / "src", rows)
    refused = []

    def meddle(done: int, total: int) -> None:
        with DenseDataset(tmp_path / "src") as other:
            try:
                other.delete(0)
            except StoreLockedError:
                refused.append(done)
            other.append(rows[:1])

    recode(tmp_path / "src", tmp_path / "dst", "raw", progress=meddle)
    assert len(refused) >= 3
    assert np.array_equal(DenseDataset(tmp_path / "dst")[:], rows)
    with Zrecord(tmp_path / "src") as deleting:
        deleting.hold("delete")
        with pytest.raises(StoreLockedError):
            recode(tmp_path / "src", tmp_path / "another")
    assert not (tmp_path / "another").exists()


def test_damage_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    rows = np.arange(4000, dtype=np.int64).reshape(1000, 4)
    from_numpy(tmp_path / "src", rows, codec="raw")
    with (tmp_path / "src" / "0.chunk").open("r+b") as file:
        file.seek(777 * 32 + 5)
        file.write(b"\xff")
    every: list[Callable[[], object]] = [
        lambda: recode(tmp_path / "src", tmp_path / "dst"),
        lambda: select(tmp_path / "src", tmp_path / "dst", [3, 777, 5]),
        lambda: split(tmp_path / "src", tmp_path / "dst", {"a": 0.5, "b": 0.5}),
    ]
    for function in every:
        with pytest.raises(ZrecordError, match="record 777"):
            function()
        assert [path.name for path in tmp_path.iterdir()] == ["src"]
    select(tmp_path / "src", tmp_path / "dst", np.arange(1000) != 777)
    assert np.array_equal(DenseDataset(tmp_path / "dst")[:], np.delete(rows, 777, 0))
