"""We read every dense and ragged store that the published package writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from loaderx import _core
from loaderx.dataset import DenseDataset, RaggedDataset
from support import CODECS, all_same, same, swap_last

from .published import Published
from .samples import DENSE, RAGGED_SHAPES, dense_rows, ragged_records, stack

COUNT = 300
DELETED = (0, 5, 7, 150, 298, 299)


def check_dense(store: Path, rows: npt.NDArray[Any]) -> None:
    with DenseDataset(store) as ours:
        assert len(ours) == len(rows)
        assert ours.dtype == rows.dtype
        assert tuple(ours.item_shape) == rows.shape[1:]
        assert same(ours[:], rows)
        order = np.random.default_rng(0).permutation(len(rows))
        assert same(ours[order], rows[order])
        assert same(ours[-1], rows[-1])
    assert not _core.Store.open(store, read_only=True).sums_known


def check_ragged(store: Path, records: list[npt.NDArray[Any]]) -> None:
    with RaggedDataset(store) as ours:
        assert len(ours) == len(records)
        assert all_same(ours[:], records)
        order = np.random.default_rng(0).permutation(len(records))
        assert all_same(ours[order], [records[i] for i in order])
        assert same(ours[-1], records[-1])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", DENSE)
def test_dense_store(published: Published, dictionary: bytes, tmp_path: Path, name: str, codec: str) -> None:
    dtype, shape = DENSE[name]
    rows = dense_rows(dtype, shape, COUNT)
    store = tmp_path / "store"
    published.write_dense(store, rows, codec, dictionary if codec == "zstd_dict" else None)
    check_dense(store, rows)


@pytest.mark.parametrize("codec", CODECS)
def test_dense_store_after_its_own_changes(published: Published, dictionary: bytes, tmp_path: Path, codec: str) -> None:
    rows, more = dense_rows("<f4", (3, 5), COUNT), dense_rows("<f4", (3, 5), 40, seed=1)
    store = tmp_path / "store"
    published.write_dense(store, rows, codec, dictionary if codec == "zstd_dict" else None)
    published.delete("dense", store, DELETED)
    kept = swap_last(rows, DELETED)
    check_dense(store, stack(kept, rows))
    published.append("dense", store, more)
    kept += list(more)
    check_dense(store, stack(kept, rows))
    published.compact("dense", store)
    check_dense(store, stack(kept, rows))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shapes", RAGGED_SHAPES)
@pytest.mark.parametrize("dtype", ["<i4", "|u1", "<f8"])
def test_ragged_store(
    published: Published, dictionary: bytes, tmp_path: Path, dtype: str, shapes: str, codec: str
) -> None:
    records = ragged_records(shapes, dtype)
    store = tmp_path / "store"
    published.write_ragged(store, records, dtype, codec, dictionary if codec == "zstd_dict" else None)
    check_ragged(store, records)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("shapes", RAGGED_SHAPES)
def test_ragged_store_after_its_own_changes(
    published: Published, dictionary: bytes, tmp_path: Path, shapes: str, codec: str
) -> None:
    records, more = ragged_records(shapes), ragged_records(shapes, seed=1)
    store = tmp_path / "store"
    published.write_ragged(store, records, "<i4", codec, dictionary if codec == "zstd_dict" else None)
    gone = (0, 3, 8)
    published.delete("ragged", store, gone)
    kept = swap_last(records, gone)
    check_ragged(store, kept)
    published.append("ragged", store, more)
    kept += more
    check_ragged(store, kept)
    published.compact("ragged", store)
    check_ragged(store, kept)


def test_its_dictionary_is_ours_too(published: Published, tmp_path: Path) -> None:
    rows = dense_rows("|u1", (64,), 4000)
    trained = published.train_dict(rows)
    with DenseDataset(tmp_path / "store", dtype=rows.dtype, item_shape=(64,), codec="zstd_dict") as ours:
        assert not ours.has_dict()
        ours.install_dict(trained)
        ours.append(rows)
    assert same(published.read_dense(tmp_path / "store"), rows)
