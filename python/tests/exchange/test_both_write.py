"""Both sides change one store in turn, and each reads what the other left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from loaderx import _core, repair
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from loaderx.zrecord import CorruptRecordError, CorruptStoreError
from support import CODECS, all_same, same, swap_last

from .published import Published, PublishedError
from .samples import RAGGED_SHAPES, dense_rows, file_bytes, ragged_records, stack

COUNT = 200


def sums_known(store: Path) -> bool:
    return _core.Store.open(store, read_only=True).sums_known


def batch(count: int, seed: int) -> npt.NDArray[Any]:
    return dense_rows("<i4", (12,), count, seed)


class Turns:
    """One dense store that both sides change, beside the list of records that it must hold."""

    def __init__(self, published: Published, store: Path, rows: npt.NDArray[Any]) -> None:
        self.published, self.store, self.like, self.records = published, store, rows, list(rows)

    def we_append(self, rows: npt.NDArray[Any]) -> None:
        with DenseDataset(self.store) as ours:
            assert ours.append(rows) == len(self.records)
        self.records += list(rows)
        self.check()

    def we_delete(self, indices: list[int]) -> None:
        with DenseDataset(self.store) as ours:
            ours.delete(indices)
        self.records = swap_last(self.records, indices)
        self.check()

    def we_compact(self) -> None:
        with DenseDataset(self.store) as ours:
            ours.compact()
        self.check()

    def they_append(self, rows: npt.NDArray[Any]) -> None:
        self.published.append("dense", self.store, rows)
        self.records += list(rows)
        self.check()

    def they_delete(self, indices: list[int]) -> None:
        self.published.delete("dense", self.store, indices)
        self.records = swap_last(self.records, indices)
        self.check()

    def they_compact(self) -> None:
        self.published.compact("dense", self.store)
        self.check()

    def check(self) -> None:
        rows = stack(self.records, self.like)
        with DenseDataset(self.store) as ours:
            assert same(ours[:], rows)
        assert same(self.published.read_dense(self.store), rows)


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ours(published: Published, dictionary: bytes, tmp_path: Path, codec: str) -> Turns:
    """A dense store that we wrote."""
    from_numpy(
        tmp_path / "store",
        batch(COUNT, 0),
        codec=codec,
        dict_bytes=dictionary if codec == "zstd_dict" else None,
    )
    return Turns(published, tmp_path / "store", batch(COUNT, 0))


@pytest.fixture
def theirs(published: Published, dictionary: bytes, tmp_path: Path, codec: str) -> Turns:
    """A dense store that the published package wrote."""
    published.write_dense(tmp_path / "store", batch(COUNT, 0), codec, dictionary if codec == "zstd_dict" else None)
    return Turns(published, tmp_path / "store", batch(COUNT, 0))


def test_they_append_to_ours(ours: Turns) -> None:
    assert sums_known(ours.store)
    ours.they_append(batch(30, 1))
    assert not sums_known(ours.store)
    ours.we_append(batch(20, 2))
    assert not sums_known(ours.store)
    ours.they_append(batch(10, 3))


def test_they_delete_from_ours(ours: Turns) -> None:
    ours.they_delete([0, 3, 100, COUNT - 1])
    assert not sums_known(ours.store)
    ours.we_append(batch(20, 2))
    ours.we_delete([1, 2, 50])
    ours.they_delete([4, 5])


def test_they_compact_ours(ours: Turns) -> None:
    ours.we_delete(list(range(0, COUNT, 3)))
    ours.they_compact()
    ours.we_append(batch(20, 2))
    ours.they_append(batch(20, 3))
    ours.we_delete([0, 1])
    ours.we_compact()


def test_they_keep_our_reserved_header_bytes(ours: Turns) -> None:
    before = file_bytes(ours.store, "meta.zr")
    ours.published.append("dense", ours.store, batch(5, 1))
    after = file_bytes(ours.store, "meta.zr")
    assert after[:22] != before[:22]
    assert after[22:] == before[22:]


@pytest.mark.parametrize("deleted", [[3], [COUNT - 2], [0, 7, 90], [150, 151, 199]])
def test_they_leave_the_very_header_that_they_found(published: Published, tmp_path: Path, deleted: list[int]) -> None:
    store, rows = tmp_path / "store", batch(COUNT, 0)
    from_numpy(store, rows, codec="raw")
    before = file_bytes(store, "meta.zr")
    published.delete("dense", store, deleted)
    published.compact("dense", store)
    published.append("dense", store, batch(len(deleted), 1))
    assert file_bytes(store, "meta.zr") == before
    expected = stack([*swap_last(list(rows), deleted), *batch(len(deleted), 1)], rows)
    with DenseDataset(store, verify="never") as ours:
        assert same(ours[np.arange(COUNT)], expected)
    with DenseDataset(store) as ours, pytest.raises(CorruptRecordError):
        ours[:]
    repair(store, rebuild_sums=True)
    for verify in ("always", "never"):
        with DenseDataset(store, verify=verify) as ours:
            assert same(ours[np.arange(COUNT)], expected)


def test_we_append_to_theirs(theirs: Turns) -> None:
    assert not sums_known(theirs.store)
    theirs.we_append(batch(30, 1))
    theirs.they_append(batch(20, 2))
    theirs.we_append(batch(10, 3))


def test_we_delete_from_theirs(theirs: Turns) -> None:
    theirs.we_delete([0, 3, 100, COUNT - 1])
    theirs.they_append(batch(20, 2))
    theirs.they_delete([1, 2])


def test_we_compact_theirs(theirs: Turns) -> None:
    theirs.they_delete(list(range(0, COUNT, 3)))
    theirs.we_compact()
    theirs.we_append(batch(20, 1))
    theirs.they_append(batch(20, 2))
    theirs.we_delete([0, 1, 2])
    theirs.we_compact()
    theirs.they_compact()


@pytest.mark.parametrize("shapes", RAGGED_SHAPES)
def test_we_change_their_ragged_store(
    published: Published, dictionary: bytes, tmp_path: Path, shapes: str, codec: str
) -> None:
    records, more = ragged_records(shapes), ragged_records(shapes, seed=1)
    store = tmp_path / "store"
    published.write_ragged(store, records, "<i4", codec, dictionary if codec == "zstd_dict" else None)

    with RaggedDataset(store) as dataset:
        dataset.append(more)
    records += more
    with pytest.raises(PublishedError):
        published.read_ragged(store)
    with RaggedDataset(store) as dataset:
        assert all_same(dataset[:], records)
        dataset.delete([0, 2, 15])
    records = swap_last(records, [0, 2, 15])
    with RaggedDataset(store) as dataset:
        assert all_same(dataset[:], records)
        dataset.compact()
    with RaggedDataset(store) as dataset:
        assert all_same(dataset[:], records)


@pytest.mark.parametrize("shapes", RAGGED_SHAPES)
def test_they_cannot_use_our_ragged_store_and_we_notice(published: Published, tmp_path: Path, shapes: str) -> None:
    records = ragged_records(shapes)
    store = tmp_path / "store"
    from_iterator(store, records, np.int32, codec="zstd")
    with pytest.raises(PublishedError):
        published.read_ragged(store)
    with RaggedDataset(store) as dataset:
        assert all_same(dataset[:], records)
    published.append("ragged", store, records[:1])
    with pytest.raises(CorruptStoreError, match="shape"):
        RaggedDataset(store)
