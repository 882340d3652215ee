"""Zero-copy views of stored records, and gathers into the caller's own arrays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx import _core
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.utils import from_numpy
from loaderx.zrecord import CorruptRecordError, StoreLockedError
from support import fork

ROWS = np.arange(50 * 6, dtype=np.float32).reshape(50, 2, 3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    from_numpy(tmp_path / "s", ROWS, codec="raw")
    return tmp_path / "s"


@pytest.mark.parametrize("verify", ["always", "once", "never"])
def test_a_view_is_the_records(path: Path, verify: Any) -> None:
    with DenseDataset(path, verify=verify) as dataset:
        for start, stop in [(0, 50), (0, 1), (7, 33), (49, 50), (50, 50), (3, 3)]:
            view = dataset.view(start, stop)
            assert view.dtype == ROWS.dtype
            assert np.array_equal(view, ROWS[start:stop])
    assert np.array_equal(view, ROWS[3:3])


def test_a_view_stays_when_the_dataset_is_closed_and_grows(path: Path) -> None:
    with DenseDataset(path) as dataset:
        view = dataset.view(10, 20)
        dataset.append(ROWS[:5])
        later = dataset.view(48, 53)
    assert np.array_equal(view, ROWS[10:20])
    assert np.array_equal(later, np.concatenate([ROWS[48:], ROWS[:3]]))


def test_a_view_cannot_be_written_to(path: Path) -> None:
    with DenseDataset(path) as dataset:
        view = dataset.view(0, 4)
    assert not view.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True


def test_nobody_moves_records_under_a_view(path: Path) -> None:
    with DenseDataset(path) as dataset:
        part = dataset.view(0, 50)[5:7]
        with pytest.raises(StoreLockedError):
            dataset.delete(0)
        with pytest.raises(StoreLockedError):
            dataset.compact()
        assert np.array_equal(part, ROWS[5:7])
        del part
        dataset.delete(0)
        assert np.array_equal(dataset[0], ROWS[49])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_view_in_a_forked_child_keeps_its_records_where_they_are(path: Path) -> None:
    to_child, from_parent = os.pipe()
    with DenseDataset(path) as dataset:
        view = dataset.view(0, 50)
        child = fork()
        if child == 0:
            os.read(to_child, 1)
            os._exit(0 if np.array_equal(view, ROWS) else 1)
        del view
        with pytest.raises(StoreLockedError):
            dataset.delete(0)
        os.write(from_parent, b"x")
        assert os.waitpid(child, 0)[1] == 0
        dataset.delete(0)
        dataset.compact()


def test_parts_of_a_view_cannot_be_written_to_either(path: Path) -> None:
    with DenseDataset(path) as dataset:
        flat = dataset.view(0, 50).reshape(-1)
    parts = _core.split(flat, np.array([0, 7, 300], np.int64))
    assert [part.size for part in parts] == [7, 293]
    assert not any(part.flags.writeable for part in parts)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (3, 2), (0, 51), (60, 61)])
def test_a_stretch_that_is_not_there(path: Path, start: int, stop: int) -> None:
    with DenseDataset(path) as dataset, pytest.raises(IndexError, match=f"{start} to {stop}: .* <= 50"):
        dataset.view(start, stop)


def test_stores_without_views(path: Path, tmp_path: Path) -> None:
    with DenseDataset(path, io="pread") as dataset, pytest.raises(ValueError, match="without memory maps"):
        dataset.view(0, 5)
    with DenseDataset(path) as dataset:
        dataset.delete(3)
        with pytest.raises(ValueError, match="never deleted from"):
            dataset.view(0, 5)
    from_numpy(tmp_path / "z", ROWS)
    with DenseDataset(tmp_path / "z") as dataset, pytest.raises(ValueError, match="raw store"):
        dataset.view(0, 5)


def test_a_view_over_two_files_is_refused_and_says_where_to_cut(tmp_path: Path) -> None:
    from loaderx._core import Store
    from loaderx.dataset import schema

    content = schema.encode(schema.Schema("dense", ROWS.dtype, "raw", item_shape=(2, 3)))
    store = Store.create(tmp_path / "s", "raw", schema=content, chunk_limit=20 * 24)
    store.append_rows(ROWS)
    store.close()
    with DenseDataset(tmp_path / "s") as dataset:
        with pytest.raises(ValueError, match="begins with record 20"):
            dataset.view(5, 25)
        assert np.array_equal(dataset.view(5, 20), ROWS[5:20])
        assert np.array_equal(dataset.view(20, 40), ROWS[20:40])
        assert np.array_equal(dataset[np.arange(50)], ROWS)


def test_damage_is_found_when_the_view_is_made(path: Path) -> None:
    chunk = path / "0.chunk"
    content = bytearray(chunk.read_bytes())
    content[24 * 30 + 5] ^= 1
    chunk.write_bytes(content)
    with DenseDataset(path) as dataset:
        with pytest.raises(CorruptRecordError, match="30"):
            dataset.view(0, 50)
        assert np.array_equal(dataset.view(0, 30), ROWS[:30])
    with DenseDataset(path, verify="never") as dataset:
        assert dataset.view(0, 50).shape == (50, 2, 3)


@pytest.mark.parametrize("codec", ["raw", "zstd"])
def test_gathering_into_an_array_of_ones_own(tmp_path: Path, codec: str) -> None:
    from_numpy(tmp_path / "s", ROWS, codec=codec)
    with DenseDataset(tmp_path / "s") as dataset:
        out = np.empty((3, 2, 3), np.float32)
        for index in ([4, 4, -1], np.array([9, 0, 3]), slice(0, 9, 3), (1, 2, 3)):
            assert dataset.gather(index, out=out) is out
            assert np.array_equal(out, ROWS[list(index) if isinstance(index, tuple) else index])
        assert np.array_equal(dataset.gather([7, 8]), ROWS[[7, 8]])
        assert np.array_equal(dataset.gather(7, out=out[:1]), ROWS[7:8])


def test_an_array_that_does_not_fit_is_refused_untouched(path: Path) -> None:
    with DenseDataset(path) as dataset:
        bad: list[tuple[Any, type[Exception]]] = [
            (np.ones((2, 2, 3), np.float32), ValueError),
            (np.ones((3, 2, 3), np.float64), ValueError),
            (np.ones((3, 2, 3), ">f4"), ValueError),
            (np.ones((3, 3, 2), np.float32), ValueError),
            (np.ones((6, 2, 3), np.float32)[::2], ValueError),
            (np.ones((3, 6), np.float32), ValueError),
            ([[[0.0] * 3] * 2] * 3, TypeError),
        ]
        frozen = np.ones((3, 2, 3), np.float32)
        frozen.flags.writeable = False
        bad.append((frozen, ValueError))
        for out, error in bad:
            with pytest.raises(error, match="out: "):
                dataset.gather([0, 1, 2], out=out)
            assert (np.asarray(out) == (0 if error is TypeError else 1)).all()


def test_a_ragged_dataset_has_neither(tmp_path: Path) -> None:
    with RaggedDataset(tmp_path / "s", dtype="f4", codec="raw") as dataset:
        assert not hasattr(dataset, "view")
