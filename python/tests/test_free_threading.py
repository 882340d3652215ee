"""Threads at the same objects, which no interpreter's lock keeps apart where Python is free-threaded. (Elsewhere they take turns.)

`LOADERX_GATHERS` is how many gathers each thread makes of each kind (`make test-free-threaded`: 100,000), within `LOADERX_GATHER_SECONDS`.
"""

from __future__ import annotations

import logging
import os
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataloader import DataLoader
from loaderx.dataloader.pipeline import Options
from loaderx.dataloader.window import Window
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.dataset import schema as schemas
from loaderx.dataset.schema import Schema
from loaderx.sampler import Sampler
from loaderx.utils import from_iterator, from_numpy
from loaderx.zrecord import StaleStoreError, StoreLockedError
from stores_of_1x import as_written_by_1x
from support import CODECS, GENEROUS, IS_FREE_THREADED, Array, all_same, images, run_python, same, soon
from together import together

THREADS = 16
GATHERS = int(os.environ.get("LOADERX_GATHERS", "60"))
SECONDS = float(os.environ.get("LOADERX_GATHER_SECONDS", "5"))
COUNT = 600
logger = logging.getLogger(__name__)

pytestmark = pytest.mark.timeout(120 + 4 * SECONDS)


@pytest.mark.skipif(not IS_FREE_THREADED, reason="this Python has the lock")
def test_no_import_brings_the_lock_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extension that doesn't say that it can do without would turn it on again, with a warning, which is an error here."""
    modules = "loaderx, loaderx.dataset, loaderx.dataloader, loaderx.sampler, loaderx.utils, loaderx.zrecord, loaderx.converters"
    code = f"import {modules}, sys\nprint(sys._is_gil_enabled())"
    monkeypatch.delenv("PYTHON_GIL", raising=False)
    done = run_python(code)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr


def many_gathers(gather: Callable[[np.random.Generator], None], seed: int, made: list[int]) -> None:
    """As many gathers as is asked for, within the time; how many it were goes into `made`."""
    rng, end = np.random.default_rng(seed), time.monotonic() + SECONDS
    for number in range(GATHERS):
        gather(rng)
        made[seed] = number + 1
        if time.monotonic() > end:
            return


def at_all_threads(make: Callable[[], Callable[[np.random.Generator], None]], what: str) -> None:
    made = [0] * THREADS
    together([partial(many_gathers, make(), seed, made) for seed in range(THREADS)], 60 + 2 * SECONDS)
    logger.info("%s: %s gathers of %s threads", what, sum(made), THREADS)
    assert min(made) > 0


@pytest.mark.parametrize("verify", ["always", "once"])
@pytest.mark.parametrize("codec", CODECS)
def test_sixteen_threads_at_a_dense_dataset(tmp_path: Path, dictionary: bytes, codec: str, verify: Any) -> None:
    rows = images(COUNT)
    from_numpy(tmp_path / "ds", rows, codec, dictionary if codec == "zstd_dict" else None)
    with DenseDataset(tmp_path / "ds", verify=verify) as ds:

        def gather() -> Callable[[np.random.Generator], None]:
            out = np.empty((32, *rows.shape[1:]), rows.dtype)

            def one(rng: np.random.Generator) -> None:
                indices = rng.integers(0, COUNT, 32)
                wanted = rows[indices]
                assert np.array_equal(ds[indices], wanted)
                out[:] = 0
                assert ds.gather(indices, out=out) is out
                assert np.array_equal(out, wanted)
                first = int(indices[0])
                assert np.array_equal(ds[first], wanted[0])
                assert np.array_equal(ds[first : first + 3], rows[first : first + 3])

            return one

        at_all_threads(gather, f"dense, {codec}, {verify}")


@pytest.mark.parametrize("codec", CODECS)
def test_sixteen_threads_at_a_ragged_dataset(tmp_path: Path, dictionary: bytes, codec: str) -> None:
    rows = images(COUNT)
    records = [row[: i % 9] if i % 2 else row.reshape(-1)[: i % 65] for i, row in enumerate(rows)]
    from_iterator(tmp_path / "ds", records, np.uint8, codec, dictionary if codec == "zstd_dict" else None)
    with RaggedDataset(tmp_path / "ds") as ds:

        def one(rng: np.random.Generator) -> None:
            indices = rng.integers(0, COUNT, 32)
            wanted = [records[i] for i in indices.tolist()]
            assert all_same(ds[indices], wanted)
            packed = ds.packed(indices)
            assert same(packed.values, np.concatenate([record.reshape(-1) for record in wanted]))
            assert packed.shapes == [record.shape for record in wanted]
            assert ds.shapes(indices) == packed.shapes
            assert ds.lengths(indices).tolist() == [record.nbytes for record in wanted]

        at_all_threads(lambda: one, f"ragged, {codec}")


def test_batches_that_end_in_other_threads_than_they_were_made_in(tmp_path: Path) -> None:
    """Memory of batches from 1 MiB on is used again, and is handed to NumPy and back without a lock."""
    rows = np.repeat(np.arange(64, dtype=np.int32), 1 << 15).reshape(64, 1 << 15)
    from_numpy(tmp_path / "ds", rows, "raw")
    handed: queue.SimpleQueue[tuple[Array, Array]] = queue.SimpleQueue()
    end = time.monotonic() + min(SECONDS, 10)
    with DenseDataset(tmp_path / "ds") as ds:

        def gather(seed: int) -> None:
            rng = np.random.default_rng(seed)
            for _ in range(200):
                indices = rng.integers(0, 64, rng.integers(6, 17))
                handed.put((indices, ds[indices]))
                indices, batch = handed.get(timeout=60)
                assert np.array_equal(batch[:, 0], indices)
                assert np.array_equal(batch[:, -1], indices)
                batch += 1  # it is ours, and nobody else sees that
                assert np.array_equal(batch[:, 1], indices + 1)
                if time.monotonic() > end:
                    return

        together([partial(gather, seed) for seed in range(8)])


class Ledger:
    """What threads did to a dataset whose records say what they are: row i holds one number many times over."""

    def __init__(self, ds: DenseDataset, end: float) -> None:
        self.ds, self.end = ds, end
        self.lock = threading.Lock()
        self.fresh, self.length, self.reads, self.refused = 20, 20, 0, 0

    def take(self, count: int) -> range:
        with self.lock:
            first, self.fresh = self.fresh, self.fresh + count
        return range(first, first + count)

    def append(self, rng: random.Random) -> None:
        more = self.take(rng.randint(1, 9))
        self.ds.append(numbered(more))
        with self.lock:
            self.length += len(more)

    def delete(self, rng: random.Random) -> None:
        gone = rng.sample(range(12), rng.randint(1, 4))
        self.ds.delete(gone)
        with self.lock:
            self.length -= len(gone)

    def read(self, rng: random.Random) -> None:
        length = max(1, len(self.ds))  # or what it was just now
        indices = np.array([rng.randrange(length) for _ in range(8)])
        found = self.ds[indices] if rng.random() < 0.5 else self.ds.gather(indices, np.empty((8, 100), np.int64))
        assert (found == found[:, :1]).all(), "a record is a mixture"
        assert found.min() >= 0
        assert found.max() < self.fresh
        with self.lock:
            self.reads += 1

    def look(self, rng: random.Random) -> None:
        self.ds.refresh()
        assert self.ds.stats()["records"] >= 0
        assert repr(self.ds)
        assert len(self.ds) >= 0

    def keep_at(self, works: Sequence[Callable[[random.Random], None]], seed: int) -> None:
        rng = random.Random(seed)
        while time.monotonic() < self.end or (not self.reads and time.monotonic() < self.end + GENEROUS):
            try:
                rng.choice(works)(rng)
            except (IndexError, StoreLockedError, StaleStoreError):
                with self.lock:
                    self.refused += 1
            except ValueError as error:
                if "closed" not in str(error):
                    raise
                return


def numbered(numbers: range) -> Array:
    return np.repeat(np.array(numbers, np.int64), 100).reshape(-1, 100)


@pytest.mark.parametrize("codec", CODECS)
def test_threads_that_append_delete_read_and_close(memory: Path, dictionary: bytes, codec: str) -> None:
    """Each call does all of what it should or nothing: whoever opens the store in the end finds just what the calls that returned left."""
    from_numpy(memory / "ds", numbered(range(20)), codec, dictionary if codec == "zstd_dict" else None)
    length = fresh = 20
    for trial in range(4):
        with DenseDataset(memory / "ds") as ds:
            ledger = Ledger(ds, time.monotonic() + min(SECONDS, 20) / 8)
            ledger.fresh, ledger.length = fresh, length
            works = [
                [ledger.append, ledger.read],
                [ledger.delete, ledger.read],
                [ledger.read],
                [ledger.look, ledger.append],
            ]
            keepers: list[Callable[[], object]] = [
                partial(ledger.keep_at, works[number % 4], 10 * trial + number) for number in range(8)
            ]

            def close(ledger: Ledger = ledger, ds: DenseDataset = ds) -> None:
                time.sleep(max(0.0, ledger.end - time.monotonic()) * 0.8)
                soon(lambda: ledger.reads > 0, GENEROUS)
                ds.close()

            together([*keepers, close, close] if trial % 2 else keepers)
        fresh, length = ledger.fresh, ledger.length
        logger.info("%s: %s records, %s reads, %s refused", codec, length, ledger.reads, ledger.refused)
        assert ledger.reads > 0
        with DenseDataset(memory / "ds", read_only=True) as ds:
            assert len(ds) == length
            found = ds[:]
            assert (found == found[:, :1]).all()
            assert len(set(found[:, 0].tolist())) == length


def test_threads_that_open_and_close_one_store(tmp_path: Path) -> None:
    rows = images(50)

    def open_and_close(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(40):
            with DenseDataset(tmp_path / "ds", rows.dtype, rows.shape[1:], read_only=bool(seed % 2)) as ds:
                index = rng.randrange(50)
                assert np.array_equal(ds[index], rows[index])

    # The first of all are made at once, too: one creates the store, and the others see all of it or none.
    def create() -> None:
        with DenseDataset(tmp_path / "new", np.int64, (3,)) as ds:
            assert len(ds) == 0

    together([create] * 8)
    from_numpy(tmp_path / "ds", rows)
    together([partial(open_and_close, seed) for seed in range(8)])


def test_the_shapes_of_an_old_store_are_moved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads whose first appends come at once: each of them would do it, or go back to a schema that it read before."""
    read = schemas.read

    def slowly(path: Path) -> Schema:
        found = read(path)
        time.sleep(random.random() / 50)
        return found

    monkeypatch.setattr(schemas, "read", slowly)
    records = [
        np.arange(size, dtype=np.int32).reshape(shape) for size, shape in [(3, (3,)), (4, (2, 2)), (6, (1, 2, 3))]
    ]
    for trial in range(6):
        path = tmp_path / str(trial)
        as_written_by_1x(path, records)
        with RaggedDataset(path) as ds:
            works = [partial(ds.append, [np.full((2, number), number, np.int32)]) for number in range(6)]
            together([*works, ds.refresh, ds.refresh])
            found = ds[:]
            assert all_same(found[:3], records)
            assert sorted(record.shape for record in found[3:]) == [(2, number) for number in range(6)]
        with RaggedDataset(path) as ds:
            assert all_same(ds[:], found)


def test_threads_that_change_several_streams(tmp_path: Path) -> None:
    for name in ("a", "b"):
        from_numpy(tmp_path / "ms" / name, np.arange(40))
    end = time.monotonic() + min(SECONDS, 10)
    with MSDataset(tmp_path / "ms") as ds:

        def change(seed: int) -> None:
            rng = random.Random(seed)
            for number in range(60):
                more = np.arange(3) + 1000 * (100 * seed + number)
                ds.append({"a": more, "b": more})
                ds.delete([rng.randrange(40), rng.randrange(40)])
                assert ds.refresh() >= 40
                assert len(ds) >= 40
                if time.monotonic() > end:
                    return

        together([partial(change, seed + 1) for seed in range(4)])
        assert same(ds["a"][:], ds["b"][:])
        assert len(ds) == len(ds["a"])


def test_a_sampler_gives_each_step_to_one_thread() -> None:
    sampler, plain = (Sampler(1000, 10, Sampler.Mode.CYCLIC) for _ in range(2))
    got: list[bytes] = []

    def draw() -> None:
        for step in range(100):
            got.append(sampler.next().tobytes())
            assert np.array_equal(sampler.batch_at(step), plain.batch_at(step))

    together([draw] * 8)
    assert sampler.step == 800
    assert sorted(got) == sorted(plain.next().tobytes() for _ in range(800))


def doubled(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": batch["x"] * 2}


LOADERS: dict[str, dict[str, Any]] = {
    "native": {},
    "transform": {"transform": doubled},
    "any order": {"transform": doubled, "ordered": False},
}


@pytest.fixture
def numbers(tmp_path: Path) -> DenseDataset:
    from_numpy(tmp_path / "ds", np.arange(4000))
    return DenseDataset(tmp_path / "ds")


@pytest.mark.parametrize("options", LOADERS.values(), ids=LOADERS)
def test_a_loader_gives_each_step_to_one_thread(numbers: DenseDataset, options: dict[str, Any]) -> None:
    got: list[bytes] = []
    steps: list[int] = []
    with numbers, DataLoader({"x": numbers}, batch_size=8, num_workers=3, timeout=60, **options) as loader:

        def draw() -> None:
            before = 0
            for _ in range(60):
                got.append(next(loader)["x"].tobytes())
                state = loader.state_dict()
                assert before <= state["step"] <= 480
                before = state["step"]
                steps.append(loader.stats().batches)

        together([draw] * 8)
        assert max(steps) == 480
        wanted = [loader.batch_at(step)["x"].tobytes() for step in range(480)]
    # Out of turn: up to 31 may have been overtaken.
    assert len(got) == len(set(got)) == 480
    if options.get("ordered", True):
        assert sorted(got) == sorted(wanted)
    else:
        assert len(set(got) & set(wanted)) >= 480 - 32


@pytest.mark.parametrize("options", LOADERS.values(), ids=LOADERS)
def test_a_loader_that_threads_draw_from_move_save_and_close(numbers: DenseDataset, options: dict[str, Any]) -> None:
    end = time.monotonic() + min(SECONDS, 10)
    with numbers, DataLoader({"x": numbers}, 3, 8, mode=Sampler.Mode.SEQUENTIAL, timeout=60, **options) as loader:

        def draw() -> None:
            for batch in loader:
                found = batch["x"] // (2 if "transform" in options else 1)
                assert found[0] % 8 == 0
                assert same(found, found[0] + np.arange(8)), "no batch of any step"

        def move(seed: int) -> None:
            rng = random.Random(seed)
            while time.monotonic() < end:
                loader.seek(rng.randrange(200))
                state = loader.state_dict()
                time.sleep(0.002)
                loader.load_state_dict(state)
                assert loader.stats().batches >= 0
                assert repr(loader)

        def close() -> None:
            time.sleep(max(0.0, end - time.monotonic()))
            loader.close()

        together([draw, draw, draw, partial(move, 1), partial(move, 2), close, close])
        assert loader.closed
        with pytest.raises(StopIteration):
            next(loader)


class Hasty(DataLoader):
    """A loader from which another thread takes a batch just when somebody has looked at which step it stands."""

    hurry = False

    @property
    def step(self) -> int:
        found = super().step
        if self.hurry:
            self.hurry = False
            together([self.__next__])
        return found


def test_to_seek_the_step_that_comes_next_anyway(numbers: DenseDataset) -> None:
    with numbers, Hasty({"x": numbers}, batch_size=8, timeout=60) as loader:
        first = next(loader)["x"]
        loader.seek(0)
        loader.hurry = True
        loader.seek(0)
        loader.hurry = False
        assert same(next(loader)["x"], first)


class Slow(int):
    """A number of bytes that takes time to compare."""

    def __gt__(self, other: int) -> bool:
        time.sleep(0.2 / int(self))
        return int(self) > int(other)


class Batch:
    def __init__(self, size: int) -> None:
        self.nbytes = Slow(size)


def test_the_largest_batch_counts_whoever_saw_it_last() -> None:
    window = Window(Options(3, 9, 40, "thread", None, True), 40)
    together([partial(window.saw, Batch(1)), partial(window.saw, Batch(20))])
    assert window.size == 2
