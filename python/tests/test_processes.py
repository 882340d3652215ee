"""Datasets in threads and in processes of every start method."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from loaderx.zrecord import StaleStoreError, StoreLockedError, Zrecord
from places import fork
from support import CODECS, Array, images, run_python, same

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


# -- every kind of handle, under every start method

NAMES = ("dense", "ragged", "bytes", "streams")
RIGHT = 6 * 32
VALUES = [row[: 1 + i % 300] for i, row in enumerate(ROWS)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of each kind; nobody writes to them."""
    root = tmp_path_factory.mktemp("processes")
    from_numpy(root / "dense", ROWS)
    from_iterator(root / "ragged", VALUES, np.int32, "raw")
    with Zrecord(root / "bytes") as store:
        store.append(ROWS, np.arange(400) * ROWS[0].nbytes)
    from_numpy(root / "streams" / "image", ROWS, "raw")
    from_iterator(root / "streams" / "token", VALUES, np.int32)
    return root


def opened(root: Path, name: str, **options: Any) -> Any:
    """A handle on the store of that name; for "streams" what a loader takes, a dict of datasets."""
    if name == "streams":
        return MSDataset(root / name, **options).streams
    kinds: dict[str, Any] = {"dense": DenseDataset, "ragged": RaggedDataset, "bytes": Zrecord}
    return kinds[name](root / name, **options)


def right(handle: Any, seed: int) -> int:
    """Read 6 batches of 32 records; the number of right ones (a step of several streams counts once)."""
    if isinstance(handle, dict):
        return min(right(stream, seed) for stream in handle.values())
    count = 0
    for indices in np.random.default_rng(seed).integers(0, 400, (6, 32)):
        if isinstance(handle, Zrecord):
            batch = np.zeros((32, 300), np.int32)
            handle.gather_rows(indices.astype(np.uint64), batch)
        else:
            batch = handle[indices]
        want = [VALUES[i] if isinstance(handle, RaggedDataset) else ROWS[i] for i in indices]
        count += sum(same(a, b) for a, b in zip(batch, want, strict=True))
    return count


@pytest.mark.parametrize("has_read", [False, True])
@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_every_handle_under_every_start_method(root: Path, method: str, has_read: bool) -> None:
    handles = [opened(root, name, io=io) for name in NAMES for io in ("mmap", "pread")]
    if has_read:
        assert [right(handle, 0) for handle in handles] == [RIGHT] * 8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
            assert list(pool.map(right, handles * 2, range(16), timeout=100)) == [RIGHT] * 16
    assert [right(handle, 1) for handle in handles] == [RIGHT] * 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("has_read", [False, True])
def test_every_handle_itself_goes_through_a_fork(root: Path, has_read: bool) -> None:
    handles = [opened(root, name) for name in NAMES]
    if has_read:
        assert [right(handle, 0) for handle in handles] == [RIGHT] * 4
    for seed in range(3):
        assert in_child(lambda seed=seed: 7 * all(right(handle, seed) == RIGHT for handle in handles)) == 7
    assert [right(handle, 1) for handle in handles] == [RIGHT] * 4


# -- pickles


@pytest.mark.parametrize("count", [1, 100_000])
def test_pickles_are_small_whatever_they_stand_for(tmp_path: Path, count: int) -> None:
    values = np.arange(count)
    from_numpy(tmp_path / "dense", values, "raw")
    from_iterator(tmp_path / "ragged", (values[:i].reshape(1, -1) for i in range(min(count, 100))), np.int64)
    for dataset in (DenseDataset(tmp_path / "dense"), RaggedDataset(tmp_path / "ragged"), Zrecord(tmp_path / "dense")):
        with dataset:
            pickled = pickle.dumps(dataset)
            assert len(pickled) < 1024 + len(str(tmp_path))
            with pickle.loads(pickled) as copy:
                assert type(copy) is type(dataset)
                assert len(copy) == len(dataset)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_a_writer_is_not_sent_to_a_worker(tmp_path: Path, method: str) -> None:
    writers: list[Any] = [
        DenseDataset(tmp_path / "dense", dtype=np.int32, item_shape=()),
        RaggedDataset(tmp_path / "ragged", dtype=np.int32),
        Zrecord(tmp_path / "bytes"),
    ]
    writers[0].append(np.arange(3, dtype=np.int32))
    writers[1].append([np.arange(3, dtype=np.int32)])
    writers[2].append(b"abc", [0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
            for writer in writers:
                with pytest.raises(TypeError, match=f"cannot pickle this {type(writer).__name__}: it has written to"):
                    pool.submit(len, writer).result(60)
    for writer in writers:
        writer.close()


def test_relative_paths_outlive_a_change_of_directory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    handles = [opened(Path(), name) for name in NAMES]
    monkeypatch.chdir("/")
    assert [right(handle, 0) for handle in handles] == [RIGHT] * 4  # files are opened as they are needed
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert list(pool.map(right, handles, range(4), timeout=100)) == [RIGHT] * 4


# -- other processes after reading


def test_commands_after_reading(root: Path) -> None:
    handles = [opened(root, name) for name in NAMES]
    for seed in range(3):
        assert [right(handle, seed) for handle in handles] == [RIGHT] * 4
        for close_fds in (True, False):
            assert subprocess.run(["true"], check=False, close_fds=close_fds).returncode == 0
        child = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], os.environ)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert [right(handle, 9) for handle in handles] == [RIGHT] * 4


def test_a_command_inherits_no_lock(tmp_path: Path) -> None:
    from_numpy(tmp_path / "s", ROWS)
    dataset = DenseDataset(tmp_path / "s")
    dataset.append(ROWS[:2])
    command = subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False)
    try:
        dataset.close()
        with DenseDataset(tmp_path / "s") as again:
            again.append(ROWS[:1])
            again.delete([0])
            again.compact()
            assert len(again) == 402
    finally:
        command.communicate()


def leave_by_exit(dataset: Any) -> None:
    """A child of multiprocessing: it ends as programs do, with finalizers."""
    len(dataset[:])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
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
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                process = multiprocessing.get_context("fork").Process(target=leave_by_exit, args=(dataset,))
                process.start()
                process.join(30)
            assert process.exitcode == 0
        elif end == "exit":
            child = fork()
            if child == 0:
                os.execv(sys.executable, [sys.executable, "-c", "raise SystemExit(7)"])
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
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


# -- many at once


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
    shares = []
    with DenseDataset(tmp_path / "s") as dataset:
        ticker.start()
        try:
            for _ in range(5):
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
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
        assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [7] * 8
