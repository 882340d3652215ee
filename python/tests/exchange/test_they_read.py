"""The published package reads every dense store that we write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from loaderx import _core
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy
from support import CODECS, same, swap_last

from .published import Published
from .samples import DENSE, dense_rows, file_bytes, stack

COUNT = 300
DELETED = (0, 5, 7, 150, 298, 299)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", DENSE)
def test_dense_store(published: Published, dictionary: bytes, tmp_path: Path, name: str, codec: str) -> None:
    dtype, shape = DENSE[name]
    rows = dense_rows(dtype, shape, COUNT)
    store = tmp_path / "store"
    from_numpy(store, rows, codec=codec, dict_bytes=dictionary if codec == "zstd_dict" else None)
    assert same(published.read_dense(store), rows)
    some = [299, 0, 7, 7, 150]
    assert same(published.read_dense(store, some), rows[some])


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", ["label", "byte-image", "skeleton"])
def test_after_delete_append_and_compact(
    published: Published, dictionary: bytes, tmp_path: Path, name: str, codec: str
) -> None:
    dtype, shape = DENSE[name]
    rows, more = dense_rows(dtype, shape, COUNT), dense_rows(dtype, shape, 40, seed=1)
    store = tmp_path / "store"
    from_numpy(store, rows, codec=codec, dict_bytes=dictionary if codec == "zstd_dict" else None)

    kept = swap_last(rows, DELETED)
    with DenseDataset(store) as ours:
        ours.delete(list(DELETED))
    assert same(published.read_dense(store), stack(kept, rows))

    with DenseDataset(store) as ours:
        ours.append(more)
    kept += list(more)
    assert same(published.read_dense(store), stack(kept, rows))

    with DenseDataset(store) as ours:
        ours.compact()
    assert same(published.read_dense(store), stack(kept, rows))


@pytest.mark.parametrize(("size", "count"), [(64, 400), (400, 24), (1100, 4)])
def test_frames_of_long_matches(published: Published, tmp_path: Path, size: int, count: int) -> None:
    """Camera noise, in which short matches are chance and not looked for: what the same level stores in another way, and larger."""
    noise = np.random.default_rng(5).normal(120, 9, (count, size, size)).clip(0, 255).astype(np.uint8)
    from_numpy(tmp_path / "store", noise, codec="zstd")
    from_numpy(tmp_path / "theirs", noise[:0], codec="zstd")
    published.append("dense", tmp_path / "theirs", noise)
    ours, theirs = ((tmp_path / name / "0.chunk").stat().st_size for name in ("store", "theirs"))
    assert ours <= theirs
    assert ours * 100 < theirs * 99 or size != 400
    assert same(published.read_dense(tmp_path / "store"), noise)
    with DenseDataset(tmp_path / "store") as store:
        store.append(noise[:2])
    assert same(published.read_dense(tmp_path / "store"), np.concatenate([noise, noise[:2]]))


def test_records_of_zero_bytes(published: Published, tmp_path: Path) -> None:
    rows = np.zeros((4, 0, 3), np.float32)
    from_numpy(tmp_path / "store", rows, codec="zstd")
    assert same(published.read_dense(tmp_path / "store"), rows)


def test_reading_changes_nothing(published: Published, tmp_path: Path) -> None:
    store = tmp_path / "store"
    from_numpy(store, dense_rows("<f4", (16,), COUNT), codec="zstd")
    before = {file.name: file.read_bytes() for file in store.iterdir()}
    published.read_dense(store)
    assert {file.name: file.read_bytes() for file in store.iterdir()} == before
    assert _core.Store.open(store, read_only=True).sums_known


def test_store_of_several_chunks(published: Published, tmp_path: Path) -> None:
    rows = dense_rows("<i4", (64,), COUNT)
    store = tmp_path / "store"
    DenseDataset(store, dtype=rows.dtype, item_shape=rows.shape[1:], codec="raw").close()
    small_chunks = _core.Store.open(store, chunk_limit=4096)
    for start in range(0, COUNT, 50):
        small_chunks.append_rows(rows[start : start + 50])
    small_chunks.close()
    assert (store / "5.chunk").exists()
    assert same(published.read_dense(store), rows)

    more = dense_rows("<i4", (64,), 20, seed=1)
    published.append("dense", store, more)
    with DenseDataset(store) as ours:
        assert same(ours[:], stack([*rows, *more], rows))


def test_no_file_is_longer_than_its_content(published: Published, tmp_path: Path) -> None:
    store = tmp_path / "store"
    rows = dense_rows("<i4", (10,), COUNT)
    from_numpy(store, rows, codec="raw")
    sizes = {file.name: file.stat().st_size for file in store.iterdir()}
    assert sizes["0.loc"] == 16 * COUNT
    assert sizes["0.chunk"] == rows.nbytes
    assert sizes["meta.zr"] == 32 == len(file_bytes(store, "meta.zr"))
    published.read_dense(store)
    assert {file.name: file.stat().st_size for file in store.iterdir()} == sizes
