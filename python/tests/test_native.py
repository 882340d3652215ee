"""The native half of the loader: draws, and pipelines whose threads never touch the interpreter."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx import _core
from support import IS_FREE_THREADED, fork, interrupted_soon, soon

COUNT = 500
LENGTHS = np.arange(COUNT) * 7 % 50
U64 = np.dtype(np.uint64)
LAST = 2**63 - 1

Array = np.ndarray[Any, Any]


def numbers(*values: int) -> Array:
    return np.array(values, np.uint64)


@pytest.fixture
def dense_rows() -> Array:
    return np.arange(COUNT * 6, dtype=np.float32).reshape(COUNT, 2, 3)


@pytest.fixture
def dense_store(tmp_path: Path, dense_rows: Array) -> Iterator[_core.Store]:
    store = _core.Store.create(tmp_path / "dense", codec="raw")
    store.append_rows(dense_rows)
    yield store
    store.close()


def ragged_record(i: int) -> Array:
    return np.full(LENGTHS[i], i % 251, np.uint8)


@pytest.fixture
def ragged_store(tmp_path: Path) -> Iterator[_core.Store]:
    store = _core.Store.create(tmp_path / "ragged")
    store.append_list([ragged_record(i) for i in range(COUNT)])
    yield store
    store.close()


def drawn(batch: int = 16, **more: Any) -> _core.Draws:
    return _core.Draws.sampled(COUNT, batch, 2, 42, **more)


def rows_of(store: _core.Store) -> _core.Rows:
    return _core.Rows(store, np.dtype(np.float32), (2, 3))


def pipeline(*streams: Any, draws: _core.Draws | None = None, first: int = 0, **limits: int) -> _core.Pipeline:
    limits = {"workers": 2, "ahead": 4, "bytes": 1 << 30, **limits}
    return _core.Pipeline(_core.Gather(draws or drawn(), [[stream] for stream in streams]), first, **limits)


def taken(pipeline: _core.Pipeline, step: int | None) -> _core.Made:
    made = pipeline.take(step, 30.0)
    assert made is not None
    return made


# -- what a step gives


@pytest.mark.parametrize(("workers", "ahead"), [(1, 1), (3, 8), (16, 8)])
def test_every_step_in_order(dense_store: _core.Store, dense_rows: Array, workers: int, ahead: int) -> None:
    made = pipeline(rows_of(dense_store), workers=workers, ahead=ahead, first=7)
    for step in range(7, 60):
        found = taken(made, step)
        (batch,) = found.streams
        assert (found.step, found.error, found.stream, found.sources) == (step, None, None, None)
        assert np.array_equal(found.indices, drawn().draw(step)[0])
        assert np.array_equal(batch, dense_rows[found.indices])
        assert found.gather_seconds > 0
    assert made.ready <= ahead


def test_arrays_are_whole_arrays(tmp_path: Path) -> None:
    for number, (dtype, shape) in enumerate(
        [("u1", ()), (">f8", (3,)), ("M8[ns]", (2, 1)), ("f4", (0, 2)), ("i4", (9000,))]
    ):
        records = np.zeros((COUNT, *shape), dtype)
        store = _core.Store.create(tmp_path / str(number), codec="raw")
        store.append_rows(records)
        made = pipeline(_core.Rows(store, np.dtype(dtype), shape))
        for step in range(6):
            (batch,) = taken(made, step).streams
            assert (batch.shape, batch.dtype) == ((16, *shape), np.dtype(dtype))
            assert batch.flags.writeable
            assert batch.flags.c_contiguous
            assert batch.flags.aligned
            assert batch.ctypes.data % 64 == 0
            batch[:] = records[:16]
        store.close()


def test_packed_records(dense_store: _core.Store, dense_rows: Array, ragged_store: _core.Store) -> None:
    made = pipeline(ragged_store, rows_of(dense_store), dense_store)
    for step in range(30):
        found = taken(made, step)
        (values, offsets, shapes), dense, (packed, _, _) = found.streams
        expected = [ragged_record(int(i)) for i in found.indices]
        assert (values.dtype, offsets.dtype, shapes) == (np.uint8, np.int64, None)
        assert np.array_equal(offsets, np.cumsum([0, *map(len, expected)]))
        assert np.array_equal(values, np.concatenate(expected))
        assert np.array_equal(dense, dense_rows[found.indices])
        assert np.array_equal(packed.view(np.float32), dense.reshape(-1))
        values[:] = 0


def test_shapes_of_packed_records(tmp_path: Path) -> None:
    store = _core.Store.create(tmp_path / "s")
    shapes = np.zeros((COUNT, 8), np.uint32)
    shapes[:, 0], shapes[:, 1], shapes[:, 2] = 2, 2, np.arange(COUNT) % 5
    store.append_list([np.zeros((2, i % 5), np.uint8) for i in range(COUNT)], shapes)
    found = taken(pipeline(store), 0)
    assert np.array_equal(found.streams[0][2], store.shapes(found.indices))
    store.close()


def test_records_of_a_mixture(
    tmp_path: Path, dense_store: _core.Store, dense_rows: Array, ragged_store: _core.Store
) -> None:
    """Dense, packed, and packed with shapes in but one of the components; a share of nothing among them."""
    small = _core.Store.create(tmp_path / "small")
    small.append_rows(-dense_rows[:40])
    shaped = _core.Store.create(tmp_path / "shaped")
    shapes = np.zeros((40, 8), np.uint32)
    shapes[:, 0], shapes[:, 1] = 1, np.arange(40)
    shaped.append_list([np.full(i, 200 + i, np.uint8) for i in range(40)], shapes)
    schedule = [(0, [1.0, 0.0]), (4, [1.0, 1.0]), (20, [0.0, 1.0])]
    draws = _core.Draws.mixed([COUNT, 40], 16, 2, 7, schedule)
    streams: list[Any] = [[rows_of(dense_store), rows_of(small)], [ragged_store, shaped]]
    made = _core.Pipeline(_core.Gather(draws, streams), 0, 2, 4, 1 << 30)
    for step in range(24):
        found = taken(made, step)
        assert found.error is None
        assert found.sources is not None
        indices, sources = draws.draw(step)
        assert sources is not None
        assert np.array_equal(found.indices, indices)
        assert np.array_equal(found.sources, sources)
        dense, (values, offsets, found_shapes) = found.streams
        pairs = [(int(source), int(i)) for source, i in zip(sources, indices, strict=True)]
        assert np.array_equal(dense, [-dense_rows[i] if source else dense_rows[i] for source, i in pairs])
        expected = [np.full(i, 200 + i, np.uint8) if source else ragged_record(i) for source, i in pairs]
        assert np.array_equal(offsets, np.cumsum([0, *map(len, expected)]))
        assert np.array_equal(values, np.concatenate(expected))
        if sources.any():
            assert np.array_equal(found_shapes[:, :2], [(1, i) if source else (0, 0) for source, i in pairs])
        else:
            assert found_shapes is None
    small.close()
    shaped.close()


def test_whatever_is_ready(dense_store: _core.Store) -> None:
    made = pipeline(rows_of(dense_store), ahead=3)
    seen = [taken(made, None).step for _ in range(50)]
    assert len(set(seen)) == 50
    assert max(seen) < 50 + 3


def test_memory_is_used_again(tmp_path: Path) -> None:
    store = _core.Store.create(tmp_path / "s", codec="raw")
    store.append_rows(np.zeros((32, 1 << 18), np.uint8))
    draws = _core.Draws.sampled(32, 8, 1, 1)
    made = pipeline(_core.Rows(store, np.dtype(np.uint8), (1 << 18,)), draws=draws, ahead=4)
    places = set()
    held: Any = None
    for step in range(60):
        (held,) = taken(made, step).streams
        places.add(held.ctypes.data)
    assert len(places) <= 4 + 2 + 2, "ahead, in hand, and one being given back"
    held[:] = 9
    for step in range(60, 80):
        (other,) = taken(made, step).streams
        assert not np.shares_memory(held, other)
    assert (held == 9).all()
    store.close()


# -- what can't be had


def test_times_out(dense_store: _core.Store) -> None:
    made = pipeline(rows_of(dense_store), ahead=1)
    start = time.monotonic()
    # Two takers who left nothing lying: step 0 is ready, and nobody wants it.
    assert taken(made, 0).step == 0
    made.stop()
    assert made.take(1, None) is None
    assert made.join(20.0)
    assert time.monotonic() - start < 20
    slow = pipeline(rows_of(dense_store))
    for bad in [float("nan")]:
        with pytest.raises(ValueError, match="not a number"):
            slow.take(0, bad)
    assert taken(slow, 0).step == 0
    with pytest.raises(ValueError, match="taken before"):
        slow.take(0, None)
    with pytest.raises(TimeoutError, match="step 900000000: no batch within 0.15 s"):
        # As far as this there is a long way, and one step after the other is made for it.
        slow.take(900_000_000, 0.15)
    assert slow.join(0.01) is False
    slow.take(None, float("inf"))
    slow.stop()


def test_errors_come_at_their_step(tmp_path: Path) -> None:
    store = _core.Store.create(tmp_path / "s", codec="raw")
    store.append_rows(np.zeros((COUNT, 6), np.float32))
    chunk = next((tmp_path / "s").glob("chunk*"), None) or max(
        (tmp_path / "s").iterdir(), key=lambda f: f.stat().st_size
    )
    store.close()
    with chunk.open("r+b") as file:
        file.seek(24 * 100 + 3)
        file.write(b"\xff")
    reader = _core.Store.open(tmp_path / "s", read_only=True)
    draws = _core.Draws.sampled(COUNT, 10, 0, 0)
    made = pipeline(reader, rows_of(reader), draws=draws)
    for step in range(20):
        found = taken(made, step)
        if step == 10:
            assert isinstance(found.error, _core.CorruptRecordError)
            assert found.error.record == 100
            assert (found.stream, found.streams) == (0, [])
            assert list(found.indices) == list(range(100, 110))
        else:
            assert found.error is None


def test_records_that_there_are_not(dense_store: _core.Store) -> None:
    table = np.arange(COUNT, dtype=np.uint64)
    table[77] = COUNT
    draws = _core.Draws.sampled(COUNT, 50, 0, 0, table=table)
    made = pipeline(rows_of(dense_store), draws=draws)
    assert taken(made, 0).error is None
    assert isinstance(taken(made, 1).error, IndexError)
    wrong = pipeline(rows_of(dense_store), _core.Rows(dense_store, np.dtype(np.uint8), (5,)))
    found = taken(wrong, 0)
    assert isinstance(found.error, ValueError)
    assert found.stream == 1


def test_steps_end(dense_store: _core.Store) -> None:
    made = pipeline(rows_of(dense_store), first=LAST)
    assert taken(made, LAST).error is None
    assert isinstance(taken(made, LAST + 1).error, ValueError)
    with pytest.raises(ValueError, match="step"):
        made.take(LAST + 2, None)


def test_streams_that_do_not_fit(dense_store: _core.Store, ragged_store: _core.Store) -> None:
    other = _core.Rows(dense_store, np.dtype(np.int32), (2, 3))
    refused: list[list[Any]] = [
        [],
        [dense_store, dense_store],
        [rows_of(dense_store), other],
        [rows_of(dense_store), ragged_store],
    ]
    for components in refused:
        with pytest.raises(ValueError, match=r"\w"):
            _core.Gather(drawn(), [components])
    with pytest.raises(TypeError):
        _core.Gather(drawn(), [[7]])  # type: ignore[list-item]


def test_a_store_that_is_closed_meanwhile(dense_store: _core.Store) -> None:
    made = pipeline(rows_of(dense_store), ahead=2)
    assert taken(made, 0).error is None
    dense_store.close()
    errors = [taken(made, step).error for step in range(1, 8)]
    assert isinstance(errors[-1], ValueError)
    assert "closed" in str(errors[-1])


def test_a_store_that_nobody_else_has(tmp_path: Path, dense_rows: Array) -> None:
    store = _core.Store.create(tmp_path / "s", codec="raw")
    store.append_rows(dense_rows)
    made = pipeline(rows_of(store))
    del store
    gc.collect()
    for step in range(20):
        found = taken(made, step)
        assert found.error is None
        assert np.array_equal(found.streams[0], dense_rows[found.indices])
    made.stop()
    assert made.join(20.0)
    del made
    _core.Store.open(tmp_path / "s").hold()


def test_deletes_meanwhile(tmp_path: Path) -> None:
    """Packed gathers ask for lengths first: another thread that deletes in between must not show."""
    store = _core.Store.create(tmp_path / "s", codec="raw")
    store.append_list([np.full(1 + i % 40, i % 40, np.uint8) for i in range(3000)])
    draws = _core.Draws.sampled(1000, 64, 1, 1)
    made = pipeline(store, draws=draws, workers=3, ahead=8)
    stop = threading.Event()

    def delete() -> None:
        for i in range(1500):
            store.delete(numbers(i % 900))
            if stop.is_set():
                return

    thread = threading.Thread(target=delete)
    thread.start()
    try:
        for step in range(300):
            found = taken(made, step)
            assert found.error is None, found.error
            values, offsets, _ = found.streams[0]
            for start, end in itertools.pairwise(offsets):
                assert (values[start:end] == end - start - 1).all()
    finally:
        stop.set()
        thread.join()
    store.close()


# -- the end


def filled(made: _core.Pipeline) -> bool:
    return made.ready == 8


def test_dropped_from_a_garbage_collection(dense_store: _core.Store) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.pipeline = pipeline(rows_of(dense_store), ahead=8)
            self.me = self

    for _ in range(20):
        cycle = Cycle()
        assert soon(partial(filled, cycle.pipeline))
        del cycle
        gc.collect()


def test_stopped_while_others_wait(dense_store: _core.Store) -> None:
    for _ in range(20):
        made = pipeline(rows_of(dense_store))
        ended: list[None] = []

        def take(made: _core.Pipeline = made, ended: list[None] = ended) -> None:
            while made.take(None, 30.0) is not None:
                pass
            ended.append(None)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.005)
        made.stop()
        made.stop()
        for thread in threads:
            thread.join(30)
        assert len(ended) == 4
        assert made.join(30.0)
        assert made.ready == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_finds_it_stopped(dense_store: _core.Store) -> None:
    made = pipeline(rows_of(dense_store), ahead=8)
    for step in range(0, 60, 2):
        child = fork()
        if child == 0:
            signal.alarm(30)
            gone = made.take(step, None) is None and made.ready == 0 and made.join(1.0)
            made.stop()
            del made
            own = pipeline(rows_of(dense_store))
            found = own.take(3, 20.0)
            os._exit(int(not (gone and found is not None and found.error is None)))
        assert os.waitpid(child, 0)[1] == 0
        taken(made, step)
        taken(made, step + 1)


SCRIPT = """
import sys, threading, time
import numpy as np
from loaderx import _core
store = _core.Store.open(sys.argv[1], read_only=True)
rows = _core.Rows(store, np.dtype(np.float32), (2, 3))
made = _core.Pipeline(_core.Gather(_core.Draws.sampled(500, 256, 2, 42), [[rows]]), 0, 3, 8, 1 << 30)
made.take(0, None)
"""


def run(path: Path, more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT + more, str(path)], check=False, capture_output=True, text=True, timeout=60
    )


@pytest.mark.skipif(
    IS_FREE_THREADED and sys.version_info < (3, 14),
    reason="PyO3 0.28, the last for 3.13t, ends the process where such a Python ends a thread",
)
@pytest.mark.parametrize(
    "more",
    [
        "keep = made",
        "threading.Thread(target=made.take, args=(10**9, None), daemon=True).start(); time.sleep(0.2)",
        "for _ in 'ab': threading.Thread(target=lambda: [made.take(None) for _ in range(10**9)], daemon=True).start()",
        "sys.modules['made'] = made",
    ],
)
def test_an_interpreter_ends_beside_it(tmp_path: Path, dense_rows: Array, more: str) -> None:
    with_rows(tmp_path / "s", dense_rows)
    found = run(tmp_path / "s", more)
    assert (found.returncode, found.stderr) == (0, "")


def with_rows(path: Path, rows: Array) -> None:
    store = _core.Store.create(path, codec="raw")
    store.append_rows(rows)
    store.close()


def test_one_interrupt_at_once(dense_store: _core.Store, sigint: None) -> None:
    made = pipeline(rows_of(dense_store))
    for _ in range(3):
        with interrupted_soon():
            made.take(10**12, None)
    assert taken(made, None).error is None
