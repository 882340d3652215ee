"""What signals' handlers, other threads and odd objects do to a loader: nothing is lost, given twice or waited for without end."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataloader import DataLoader
from loaderx.dataset import MSDataset, RaggedDataset
from loaderx.sampler import Sampler
from loaderx.utils import from_iterator, from_numpy
from numbers_stream import Numbers
from support import collector_paused, run_python

COUNT = 400
BATCH = 64
INTERRUPTS = 150


class DeadlineError(Exception):
    """Raised by a signal's handler."""


@pytest.fixture
def ragged(tmp_path: Path) -> Iterator[dict[str, Any]]:
    from_iterator(tmp_path / "ds", [np.full(1 + i % 5, i, np.int64) for i in range(COUNT)], np.int64)
    with RaggedDataset(tmp_path / "ds", read_only=True) as ds:
        yield {"r": ds}


def records(batch: Any) -> list[int]:
    return [int(record[0]) for record in batch["r"]]


def same(batch: Any) -> Any:
    return batch


class Alarm:
    """Raises `error` in the main thread, a moment after it was set."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error = error
        self._rng = np.random.default_rng(7)
        self.raised = False

    def set(self) -> None:
        self.raised = False
        signal.setitimer(signal.ITIMER_REAL, self._rng.uniform(1e-5, 4e-4))

    def handle(self, number: int, frame: Any) -> None:
        self.raised = True
        raise self._error


@contextlib.contextmanager
def alarm_of(error: type[BaseException]) -> Iterator[Alarm]:
    alarm = Alarm(error)
    before = signal.signal(signal.SIGALRM, alarm.handle)
    try:
        with collector_paused():
            yield alarm
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# The other method of pytest-timeout takes the same signal.
@pytest.mark.timeout(method="thread")
@pytest.mark.parametrize("error", [KeyboardInterrupt, DeadlineError, SystemExit])
@pytest.mark.parametrize(
    "options", [{}, {"transform": same}, {"on_error": "skip"}, {"ordered": False}, {"timeout": 60}]
)
def test_interrupts_lose_no_batch(ragged: Any, error: type[BaseException], options: dict[str, Any]) -> None:
    """Whatever was raised at whichever moment: the state is where the consumer is, and the loader goes on there."""
    sampler = Sampler(COUNT, BATCH, 2)
    given: list[Any] = []
    interrupted = 0
    with DataLoader(ragged, 2, BATCH, 3, **options) as loader, alarm_of(error) as alarm:
        while interrupted < INTERRUPTS:
            given.append(next(loader))  # it starts threads: Python itself can't be interrupted there without a trace
            try:
                alarm.set()
                while not alarm.raised:
                    given.append(next(loader))
                pytest.fail(f"{error.__name__} was raised in next(), and did not come out of it")
            except error:
                interrupted += 1
                signal.setitimer(signal.ITIMER_REAL, 0)
            position = loader.state_dict()
            loader.load_state_dict(position)
            # What was given, or is about to be where the interrupt came right behind `next()`.
            steps = position["step"] + len(position["seen"])
            if steps > len(given):
                given.append(None)
            assert steps == len(given)
        assert loader.stats().skipped == 0
    if "ordered" in options:
        return
    assert given.count(None) <= INTERRUPTS // 10
    for step, batch in enumerate(given):
        assert batch is None or records(batch) == sampler.batch_at(step).tolist()


@pytest.mark.timeout(method="thread")
def test_a_handler_that_uses_the_loader_gets_an_error(ragged: Any) -> None:
    """It can't wait for its own thread."""
    go_on = threading.Event()
    caught: list[BaseException] = []

    def handle(number: int, frame: Any) -> None:
        try:
            loader.seek(3)
        except RuntimeError as error:
            caught.append(error)
        go_on.set()

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with DataLoader(ragged, 1, BATCH, transform=lambda batch: go_on.wait() and batch) as loader:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            assert records(next(loader)) == Sampler(COUNT, BATCH, 2).batch_at(0).tolist()
            assert "used by a signal's handler" in str(caught[0])
            loader.seek(3)
            assert loader.step == 3
    finally:
        signal.signal(signal.SIGALRM, before)


class Hostile:
    """Something whose size can't be asked for."""

    @property
    def nbytes(self) -> int:
        raise RuntimeError("no size")


class Unhandled(Exception):
    """An exception that refuses to be looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("not for you")


class Notes(Exception):
    """An exception that takes no notes."""

    def add_note(self, note: str) -> None:
        raise SystemExit(note)


def nested() -> list[Any]:
    itself: list[Any] = []
    itself.append(itself)
    return itself


@pytest.mark.parametrize("make", [Hostile, nested, lambda: {"x": [Hostile()]}])
def test_results_of_any_kind_come(make: Callable[[], Any]) -> None:
    with DataLoader({"n": Numbers(10)}, 2, 2, timeout=60, transform=lambda batch: make()) as loader:
        assert len([type(batch) for batch in loader.take(20)]) == 20


@pytest.mark.parametrize("error", [Unhandled, Notes])
def test_exceptions_of_any_kind_come(error: type[Exception]) -> None:
    def fail(batch: Any) -> Any:
        raise error

    with (
        DataLoader({"n": Numbers(10)}, 2, 2, timeout=60, transform=fail) as loader,
        pytest.raises((error, RuntimeError, SystemExit)),
    ):
        next(loader)


@pytest.mark.parametrize("options", [{}, {"transform": same}])
def test_streams_that_are_deleted_from_stay_together(tmp_path: Path, options: dict[str, Any]) -> None:
    """A delete comes to one stream after the other; no step has one record's image with another's label."""
    for name in ("a", "b"):
        from_numpy(tmp_path / name, np.arange(4000), codec="raw")
    with MSDataset(tmp_path) as ds, DataLoader(ds, 2, 16, indices=range(3000), **options) as loader:
        generation = loader.state_dict()["fingerprint"]["generation"]

        def delete() -> None:
            for _ in range(60):
                ds.delete([0, 3])

        thread = threading.Thread(target=delete)
        thread.start()
        while thread.is_alive():
            batch = next(loader)
            assert np.array_equal(batch["a"], batch["b"])
        thread.join()
        assert loader.state_dict()["fingerprint"]["generation"] == [number + 60 for number in generation]


def test_as_ready_goes_on_after_an_error(tmp_path: Path) -> None:
    """`seek` to where the loader stands tries again, and gives nothing twice."""
    failing = Sampler(100, 4, 2).batch_at(2).tolist()
    attempts = itertools.count()

    def fail(batch: Any) -> Any:
        if batch["n"].tolist() == failing and next(attempts) == 0:
            raise OSError("for now")
        if batch["n"].tolist() == Sampler(100, 4, 2).batch_at(0).tolist():
            time.sleep(0.3)
        return batch

    got: list[list[int]] = []
    with DataLoader({"n": Numbers(100)}, 3, 4, 2, ordered=False, transform=fail) as loader:
        while len(got) < 20:
            try:
                got.append(next(loader)["n"].tolist())
            except OSError:
                loader.seek(loader.step)
        state = loader.state_dict()
    given = [*range(state["step"]), *state["seen"]]
    assert sorted(got) == sorted(Sampler(100, 4, 2).batch_at(step).tolist() for step in given)


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_forked_child_that_ends_leaves_the_workers_alone(tmp_path: Path, method: str) -> None:
    from_numpy(tmp_path / "ds", np.arange(100), codec="raw")
    code = """
import os, sys, warnings
from loaderx import DataLoader, DenseDataset
if __name__ == "__main__":
    ds = DenseDataset(sys.argv[1], read_only=True)
    loader = DataLoader({"x": ds}, 2, 4, 2, worker_type="process", start_method=sys.argv[2])
    next(loader)
    warnings.simplefilter("ignore", DeprecationWarning)
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
    for _ in range(30):
        next(loader)
    loader.close()
    print("went on")
"""
    (tmp_path / "program.py").write_text(code)
    runner = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    done = run_python(runner, str(tmp_path / "program.py"), str(tmp_path / "ds"), method, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "went on\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("how", ["live", "dropped", "sought"])
def test_the_end_of_the_program_does_not_wait_for_a_stopped_worker(tmp_path: Path, how: str) -> None:
    from_numpy(tmp_path / "ds", np.arange(100), codec="raw")
    code = """
import os, signal, sys
from loaderx import DataLoader, DenseDataset
ds = DenseDataset(sys.argv[1], read_only=True)
loader = DataLoader({"x": ds}, 1, 4, 2, worker_type="process", start_method="spawn")
next(loader)
(worker,) = [w.process.pid for w in loader._pipeline._workers]
print(worker, flush=True)
os.kill(worker, signal.SIGSTOP)
if sys.argv[2] == "dropped":
    del loader
elif sys.argv[2] == "sought":
    loader.seek(1000)
"""
    done = run_python(code, str(tmp_path / "ds"), how, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    worker = int(done.stdout)
    deadline = time.monotonic() + 30
    while True:
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            break
        assert time.monotonic() < deadline
        time.sleep(0.01)
