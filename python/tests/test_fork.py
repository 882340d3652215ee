"""Forked children: what they read and lock, also where other threads were at work at the fork."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.utils import from_numpy
from loaderx.zrecord import StaleStoreError, StoreLockedError
from read_datasets import ROWS, checked, read_from
from support import ended, fork, forking, in_child, run_python, same

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
FORKS = 30


@pytest.fixture
def stores(tmp_path: Path) -> tuple[DenseDataset, RaggedDataset]:
    return read_from(tmp_path)


def test_a_child_reads_whatever_the_parents_threads_were_doing(tmp_path: Path) -> None:
    values = np.arange(400)
    from_numpy(tmp_path / "s", values, codec="raw")
    done = threading.Event()
    dataset = DenseDataset(tmp_path / "s")

    def append() -> None:
        while not done.is_set():
            dataset.append(values[:2])

    def gather() -> None:
        while not done.is_set():
            dataset[values]

    threads = [threading.Thread(target=work) for work in (append, gather, gather)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(FORKS):
            child = fork()
            if child == 0:
                os._exit(0 if np.array_equal(dataset[values], values) else 1)
            assert ended(child) == 0  # it might wait for a thread it doesn't have
    finally:
        done.set()
        for thread in threads:
            thread.join()
        dataset.close()


def test_a_fork_uses_the_very_same_objects(stores: Any) -> None:
    children = []
    for seed in range(4):
        child = fork()
        if child == 0:
            right = 0
            try:
                right = checked(stores, seed)
            finally:
                os._exit(0 if right == 20 * 64 * 2 else 1)
        children.append(child)
    assert checked(stores, 99) == 20 * 64 * 2
    assert [ended(child) for child in children] == [0, 0, 0, 0]
    assert subprocess.run([sys.executable, "-c", ""], check=False).returncode == 0


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


def test_a_closed_writer_leaves_no_lock_with_its_children(tmp_path: Path) -> None:
    from_numpy(tmp_path / "s", ROWS)
    dataset = DenseDataset(tmp_path / "s")
    dataset.append(ROWS[:2])
    reading, writing = os.pipe()
    child = fork()
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


def test_a_child_that_was_forked_while_another_thread_writes_does_not_hang(tmp_path: Path) -> None:
    from_numpy(tmp_path / "s", ROWS)
    dataset = DenseDataset(tmp_path / "s")
    dataset.append(ROWS[:1])  # or a child may be the first to write
    dataset.delete(400)
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


def leave_by_exit(dataset: Any) -> None:
    """A child of multiprocessing: it ends as programs do, with finalizers."""
    len(dataset[:])


@pytest.mark.parametrize("end", ["close", "with", "sync", "delete", "exit", "process"])
def test_a_forked_child_takes_nothing_from_a_writer(tmp_path: Path, end: str) -> None:
    with DenseDataset(tmp_path / "s", dtype=np.int32, item_shape=(300,)) as dataset:
        dataset.append(ROWS[:10])

        def leave() -> int:
            if end == "with":
                with dataset:
                    return 7
            if end == "delete":
                for operation in (partial(dataset.append, ROWS[:1]), partial(dataset.delete, 0), dataset.compact):
                    with pytest.raises(StoreLockedError):
                        operation()
            if end in ("close", "sync"):
                getattr(dataset, end)()
            return 7

        if end == "process":
            with forking():
                process = multiprocessing.get_context("fork").Process(target=leave_by_exit, args=(dataset,))
                process.start()
                process.join(60)
            assert process.exitcode == 0
        elif end == "exit":
            child = fork()
            if child == 0:
                os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(7)"])
            assert ended(child) == 7
        else:
            assert in_child(leave) == 7

        # The lock is still there,
        code = f"from loaderx.dataset import DenseDataset as D; D({str(tmp_path / 's')!r}).append"
        other = run_python(f"{code}(__import__('numpy').zeros((1, 300), 'i4'))")
        assert f"process {os.getpid()} writes to it" in other.stderr
        # and so is all that a writer does.
        assert dataset.append(ROWS[10:20]) == 10
        dataset.sync()
        dataset.delete(0)
        dataset.compact()
        assert same(dataset[:], np.concatenate([ROWS[19:20], ROWS[1:19]]))
    with DenseDataset(tmp_path / "s", read_only=True) as again:
        assert len(again) == 19


@pytest.mark.parametrize("end", ["close", "return"])
def test_a_forked_child_takes_no_lock_from_a_reader(tmp_path: Path, end: str) -> None:
    from_numpy(tmp_path / "s", ROWS)
    with DenseDataset(tmp_path / "s", read_only=True) as reader, DenseDataset(tmp_path / "s") as writer:
        assert same(reader[:], ROWS)

        def leave() -> int:
            if end == "close":
                reader.close()
            return 7

        assert in_child(leave) == 7
        with pytest.raises(StoreLockedError, match="another handle or process has it open"):
            writer.delete(0)
        assert same(reader[:], ROWS)
        reader.close()
        writer.delete(0)


@pytest.mark.parametrize(("codec", "io"), [("raw", "pread"), ("zstd", "mmap")])
def test_eight_forked_children_read_at_random(tmp_path: Path, codec: str, io: Any) -> None:
    """All reads are positional: no child moves another's cursor."""
    count = 20_000
    from_numpy(tmp_path / "s", np.repeat(np.arange(count), 4).reshape(count, 4), codec)
    with DenseDataset(tmp_path / "s", io=io) as dataset:
        assert dataset[count - 1][3] == count - 1

        def read(seed: int) -> bool:
            batches = np.random.default_rng(seed).integers(0, count, (50, 2000))
            return all(same(dataset[indices], np.repeat(indices, 4).reshape(-1, 4)) for indices in batches)

        children = []
        for seed in range(8):
            child = fork()
            if child == 0:
                status = 1
                try:
                    status = 7 if read(seed) else 1
                finally:
                    os._exit(status)
            children.append(child)
        assert read(8)
        assert [ended(child) for child in children] == [7] * 8
