"""Datasets in several threads of one process."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from read_datasets import checked, read_from
from support import CODECS, GENEROUS, Array, images, same


@pytest.fixture
def stores(tmp_path: Path) -> tuple[DenseDataset, RaggedDataset]:
    return read_from(tmp_path)


def test_many_threads_read_one_dataset(stores: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda seed: checked(stores, seed), range(16))) == [20 * 64 * 2] * 16


def test_reading_while_appending(tmp_path: Path) -> None:
    """A reader, in its own handle or the writer's, sees a prefix of what was appended, and never an error."""
    done = threading.Event()
    with DenseDataset(tmp_path / "ds", dtype=np.int64, item_shape=(16,)) as writer:
        writer.append(rows(0, 5))
        with DenseDataset(tmp_path / "ds", read_only=True) as reader, ThreadPoolExecutor(3) as pool:

            def follow(ds: DenseDataset) -> int:
                reads = 0
                while not done.is_set():
                    length = ds.refresh() if ds is reader else len(ds)
                    indices = np.random.default_rng(reads).integers(0, length, 32)
                    assert same(ds[indices], rows(0, length)[indices])
                    reads += 1
                return reads

            readers = [pool.submit(follow, reader), pool.submit(follow, writer)]
            try:
                for start in range(5, 1000, 5):
                    assert writer.append(rows(start, 5)) == start
            finally:
                done.set()
            assert all(future.result(60) > 0 for future in readers)
            assert reader.refresh() == 1000
            assert same(reader[:], rows(0, 1000))


def rows(start: int, count: int) -> Array:
    return np.repeat(np.arange(start, start + count), 16).reshape(count, 16)


def test_threads_that_append_at_once(tmp_path: Path) -> None:
    with DenseDataset(tmp_path / "ds", dtype=np.int64, item_shape=(16,)) as ds:
        with ThreadPoolExecutor(4) as pool:
            firsts = list(pool.map(lambda start: ds.append(rows(start, 3)), range(0, 300, 3)))
        assert sorted(firsts) == list(range(0, 300, 3))
        for start, first in zip(range(0, 300, 3), firsts, strict=True):
            assert same(ds[first : first + 3], rows(start, 3))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("io", ["mmap", "pread"])
def test_sixteen_threads_gather_from_one_handle(tmp_path: Path, dictionary: bytes, codec: str, io: Any) -> None:
    trained = dictionary if codec == "zstd_dict" else None
    rows = images(600)
    values = [row.reshape(-1)[: i % 65].reshape(1, -1) for i, row in enumerate(rows)]
    from_numpy(tmp_path / "dense", rows, codec, trained)
    from_iterator(tmp_path / "ragged", values, np.uint8, codec, trained)
    start = threading.Barrier(16, timeout=60)

    def gather(seed: int) -> int:
        start.wait()
        count = 0
        for indices in np.random.default_rng(seed).integers(0, 600, (12, 128)):
            count += 128 * same(dense[indices], rows[indices])
            count += sum(same(a, values[i]) for a, i in zip(ragged[indices], indices, strict=True))
        return count

    dense, ragged = DenseDataset(tmp_path / "dense", io=io), RaggedDataset(tmp_path / "ragged", io=io)
    with dense, ragged, ThreadPoolExecutor(16) as pool:
        assert list(pool.map(gather, range(16))) == [12 * 128 * 2] * 16


def test_other_threads_run_during_a_gather(tmp_path: Path) -> None:
    """The interpreter's lock is free meanwhile: a thread of plain Python is never kept waiting for a whole gather."""
    from_numpy(tmp_path / "s", np.random.default_rng(0).integers(0, 9, (16, 1 << 20)).astype(np.uint8))
    stop = threading.Event()
    waits: list[float] = []

    def tick() -> None:
        last = time.perf_counter()
        while not stop.is_set():
            now = time.perf_counter()
            waits.append(now - last)
            last = now

    ticker = threading.Thread(target=tick)
    shares: list[float] = []
    with DenseDataset(tmp_path / "s") as dataset:
        ticker.start()
        try:
            # One time is enough; other programs may be why there is none.
            end = time.monotonic() + GENEROUS
            while len(shares) < 5 or time.monotonic() < end:
                start = time.perf_counter()
                waits.clear()
                dataset[np.arange(64) % 16]
                shares.append(max(waits, default=60) / (time.perf_counter() - start))
                if shares[-1] < 0.5:
                    break
        finally:
            stop.set()
            ticker.join()
    assert min(shares) < 0.5
