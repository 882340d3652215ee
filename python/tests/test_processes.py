"""Every kind of handle in processes of every start method, what is pickled for them, and commands."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from loaderx.zrecord import Zrecord
from read_datasets import ROWS, checked, read_from
from support import forking, in_child, same


@pytest.fixture
def stores(tmp_path: Path) -> tuple[DenseDataset, RaggedDataset]:
    return read_from(tmp_path)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_every_start_method(stores: Any, method: str) -> None:
    with forking(), ProcessPoolExecutor(3, multiprocessing.get_context(method)) as pool:
        assert list(pool.map(checked, [stores] * 6, range(6), timeout=100)) == [20 * 64 * 2] * 6
    assert checked(stores, 9) == 20 * 64 * 2


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
    with forking(), ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
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
    with forking(), ProcessPoolExecutor(1, multiprocessing.get_context(method)) as pool:
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
