"""Datasets in threads and in processes of every start method."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from loaderx.zrecord import StaleStoreError, StoreLockedError
from support import Array, same

ROWS = np.arange(400 * 300, dtype=np.int32).reshape(400, 300)


@pytest.fixture
def stores(tmp_path: Path) -> tuple[DenseDataset, RaggedDataset]:
    """Two datasets that were read from, so that whatever threads they have exist."""
    from_numpy(tmp_path / "dense", ROWS)
    from_iterator(tmp_path / "ragged", (row[: 1 + i % 300] for i, row in enumerate(ROWS)), np.int32)
    dense, ragged = DenseDataset(tmp_path / "dense"), RaggedDataset(tmp_path / "ragged")
    assert len(dense[:]) == len(ragged[:]) == 400
    return dense, ragged


def checked(datasets: tuple[DenseDataset, RaggedDataset], seed: int) -> int:
    """Read both at random; the number of right records."""
    dense, ragged = datasets
    right = 0
    for indices in np.random.default_rng(seed).integers(0, 400, (20, 64)):
        right += sum(same(a, ROWS[i]) for a, i in zip(dense[indices], indices, strict=True))
        right += sum(same(a, ROWS[i, : 1 + i % 300]) for a, i in zip(ragged[indices], indices, strict=True))
    return right


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_every_start_method(stores: Any, method: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads is what is tested
        with ProcessPoolExecutor(3, multiprocessing.get_context(method)) as pool:
            assert list(pool.map(checked, [stores] * 6, range(6), timeout=100)) == [20 * 64 * 2] * 6
    assert checked(stores, 9) == 20 * 64 * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_uses_the_very_same_objects(stores: Any) -> None:
    children = []
    for seed in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            right = 0
            try:
                right = checked(stores, seed)
            finally:
                os._exit(0 if right == 20 * 64 * 2 else 1)
        children.append(child)
    assert checked(stores, 99) == 20 * 64 * 2
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0, 0]
    assert subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0


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


def in_child(work: Any) -> int:
    """Run `work` in a forked child; its exit status, or 99 if it does not end within 20 s."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            status = int(work())
        finally:
            os._exit(status)
    for _ in range(2000):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 99


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_moves_no_records_under_its_parent(stores: Any) -> None:
    def move() -> int:
        refused = 0
        for operation in (lambda: stores[0].delete(0), stores[0].compact):
            try:
                operation()
            except StoreLockedError as error:
                refused += "fork" in str(error)
        return refused

    assert in_child(move) == 2
    assert checked(stores, 1) == 20 * 64 * 2
    stores[1].close()
    stores[0].delete(0)
    assert len(stores[0]) == 399


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_that_was_forked_in_mid_gather_closes(stores: Any) -> None:
    stop = threading.Event()

    def gather() -> None:
        while not stop.is_set():
            stores[0][np.arange(400)]

    def close() -> int:
        for dataset in stores:
            dataset.close()
        return 7

    threads = [threading.Thread(target=gather) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        assert [in_child(close) for _ in range(12)] == [7] * 12
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert checked(stores, 2) == 20 * 64 * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_closed_writer_leaves_no_lock_with_its_children(tmp_path: Path) -> None:
    from_numpy(tmp_path / "s", ROWS)
    dataset = DenseDataset(tmp_path / "s")
    dataset.append(ROWS[:2])
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.read(reading, 1)
        os._exit(0)
    try:
        dataset.close()
        with DenseDataset(tmp_path / "s") as again:
            again.append(ROWS[:1])
            again.delete([0])
            assert len(again) == 402
    finally:
        os.write(writing, b"x")
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_that_was_forked_while_another_thread_writes_does_not_hang(tmp_path: Path) -> None:
    from_numpy(tmp_path / "s", ROWS)
    dataset = DenseDataset(tmp_path / "s")
    dataset._store.begin_write()
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            dataset.append(ROWS[:8])
            with contextlib.suppress(StoreLockedError):  # a child that reads has the store open
                dataset.delete(np.arange(400, len(dataset)))
                dataset.compact()

    def use() -> int:
        done = 0
        for operation in (lambda: dataset[0], dataset.refresh, lambda: dataset.append(ROWS[:1])):
            try:
                operation()
                done += 1
            except (StoreLockedError, StaleStoreError):
                done += 1
        dataset.close()
        return done

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert [in_child(use) for _ in range(2)] == [3] * 2
    finally:
        stop.set()
        writer.join()
    with dataset:
        dataset.delete(np.arange(400, len(dataset)))
        assert same(dataset[:], ROWS)
