"""How a loader ends: by close, with, break, garbage collection, Ctrl-C and the end of the program, with a full queue each time."""

from __future__ import annotations

import contextlib
import gc
import itertools
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataloader import DataLoader
from loaderx.dataloader import pipeline as pipelines
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy
from support import GENEROUS, IS_FREE_THREADED, ending, interrupted_soon, run_python, soon


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pipeline") / "ds"
    from_numpy(path, np.arange(1000 * 64).reshape(1000, 64))
    return path


@pytest.fixture
def ds(path: Path) -> Iterator[DenseDataset]:
    with DenseDataset(path, read_only=True) as ds:
        yield ds


def workers() -> list[str]:
    """Names of the threads that loaders have: Python's own, and native ones."""
    names = [thread.name for thread in threading.enumerate() if thread.name.startswith("loaderx-")]
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it ended just now
            name = (task / "comm").read_text().strip()
            if name.startswith("loaderx-gather"):
                names.append(name)
    return names


def same(batch: Any) -> Any:
    """A transform that does nothing, and that needs Python threads nonetheless."""
    return batch


@pytest.fixture(params=["native", "threads"])
def kind(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What makes the batches: native threads alone, or Python threads behind them."""
    return {} if request.param == "native" else {"transform": same}


def filled(ds: DenseDataset, kind: dict[str, Any]) -> DataLoader:
    """A loader that has given one batch and then filled its queue."""
    loader = DataLoader({"x": ds}, batch_size=8, **kind)
    next(loader)
    assert soon(lambda: loader.stats().ready == (4 + 4 if kind else 4))
    return loader


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    gc.collect()
    assert soon(lambda: not workers())


def test_threads_start_with_the_first_batch(ds: DenseDataset, kind: dict[str, Any]) -> None:
    with DataLoader({"x": ds}, num_workers=3, batch_size=8, **kind) as loader:
        assert soon(lambda: not workers())  # one of a test before may still be at its last step
        next(loader)
        assert soon(lambda: len(workers()) == (3 + 3 if kind else 3))
    assert not workers()


def test_prefetching_is_bounded(ds: DenseDataset) -> None:
    begun = itertools.count()
    with DataLoader({"x": ds}, 2, 8, 3, transform=lambda batch: next(begun)) as loader:
        for step in range(5):
            next(loader)
            assert soon(lambda: loader.stats().ready == 2 + 3)
            time.sleep(0.01)
            assert next(begun) == step + 1 + 2 + 3
            begun = itertools.count(step + 1 + 2 + 3)


def test_nothing_is_held_but_what_is_ahead(ds: DenseDataset) -> None:
    class Batch:
        def __init__(self, values: Any) -> None:
            self.values = values

    alive: weakref.WeakSet[Batch] = weakref.WeakSet()
    lock = threading.Lock()

    def transform(batch: Any) -> Batch:
        made = Batch(batch)
        with lock:
            alive.add(made)
        return made

    with DataLoader({"x": ds}, 2, 8, 3, transform=transform) as loader:
        for _ in range(50):
            next(loader)
        # Without the interpreter's lock, what the consumer dropped goes when the thread that made it next runs.
        most = 2 * (2 + 3) if IS_FREE_THREADED else 2 + 3
        assert soon(lambda: len(alive) <= most)
    assert soon(lambda: len(alive) == 0)


def test_close(ds: DenseDataset, kind: dict[str, Any]) -> None:
    filled(ds, kind).close()
    assert not workers()


def test_with_and_break(ds: DenseDataset, kind: dict[str, Any]) -> None:
    with filled(ds, kind) as loader:
        for _ in loader:
            break
    assert not workers()


def test_break_out_of_an_unnamed_loader(ds: DenseDataset, kind: dict[str, Any]) -> None:
    for _ in DataLoader({"x": ds}, batch_size=8, **kind):
        break
    assert soon(lambda: not workers())


def test_the_last_reference(ds: DenseDataset, kind: dict[str, Any]) -> None:
    loader = filled(ds, kind)
    reference = weakref.ref(loader)
    del loader
    gc.collect()
    assert reference() is None
    assert soon(lambda: not workers())


def test_a_cycle_is_collected(ds: DenseDataset, kind: dict[str, Any]) -> None:
    loader = filled(ds, kind)
    loader.self = loader  # type: ignore[attr-defined]
    reference = weakref.ref(loader)
    del loader
    gc.collect()
    assert reference() is None
    assert soon(lambda: not workers())


def test_a_loader_that_failed_is_collected(ds: DenseDataset) -> None:
    def fail(batch: Any) -> Any:
        raise ValueError("mine")

    def use() -> weakref.ref[DataLoader]:
        loader = DataLoader({"x": ds}, batch_size=8, transform=fail)
        with pytest.raises(ValueError, match="mine"):
            next(loader)
        return weakref.ref(loader)

    reference = use()
    gc.collect()
    assert reference() is None


@pytest.mark.timeout(320)
def test_many_loaders_leave_nothing(path: Path, kind: dict[str, Any]) -> None:
    """Opened, read once and dropped, with their datasets: ten thousand where no Python threads start, which takes longest."""
    code = """
import gc, os, sys, threading, time
from loaderx import DataLoader, DenseDataset

def use(number):
    with DenseDataset(sys.argv[1]) as ds:
        loader = DataLoader({"x": ds}, num_workers=2, batch_size=8, **options)
        next(loader)
        if number % 2:
            loader.close()

def counts():
    gc.collect()
    deadline = time.monotonic() + 30
    while len(os.listdir("/proc/self/task")) > 8 and time.monotonic() < deadline:
        time.sleep(0.01)
    with open("/proc/self/status") as file:
        lines = file.read().splitlines()
    memory = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), memory

options = {} if sys.argv[2] == "native" else {"transform": lambda batch: batch}
count = 10_000 if sys.argv[2] == "native" else 1_000
for number in range(count // 5):
    use(number)
threads, files, memory = counts()
for number in range(count):
    use(number)
after = counts()
assert after[0] <= threads + 1, (threads, after)
assert after[1] <= files, (files, after)
assert after[2] <= memory + 4096, (memory, after)
"""
    done = run_python(code, str(path), "threads" if kind else "native", timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_cell_that_is_run_again_and_again(path: Path) -> None:
    """As in a notebook: the same names are bound anew, and the loader of the last run is dropped while it is full."""
    cell = """
ds = DenseDataset(path)
loader = DataLoader({"x": ds}, batch_size=8)
for step, batch in enumerate(loader):
    if step == 3:
        break
"""
    namespace = {"DenseDataset": DenseDataset, "DataLoader": DataLoader, "path": path}
    for _ in range(30):
        exec(cell, namespace)
    assert len(workers()) <= 2 * 4
    namespace.clear()


def test_close_does_not_wait_for_a_stuck_transform(ds: DenseDataset) -> None:
    go_on = threading.Event()
    loader = DataLoader({"x": ds}, batch_size=8, timeout=0.05, transform=lambda batch: go_on.wait())
    with pytest.raises(TimeoutError):
        next(loader)
    start = time.monotonic()
    loader.close()
    assert time.monotonic() - start < GENEROUS / 2
    go_on.set()


def test_close_from_a_transform(ds: DenseDataset) -> None:
    loader = DataLoader({"x": ds}, batch_size=8, transform=lambda batch: loader.close())
    assert list(itertools.islice(loader, 100)) in ([], [None])


def test_close_wakes_a_consumer_that_waits(ds: DenseDataset) -> None:
    go_on = threading.Event()
    loader = DataLoader({"x": ds}, batch_size=8, transform=lambda batch: go_on.wait())
    ends: list[list[Any]] = []
    consumers = [threading.Thread(target=lambda: ends.append(list(loader))) for _ in range(3)]
    for consumer in consumers:
        consumer.start()
    assert soon(workers)
    loader.close()
    for consumer in consumers:
        consumer.join(GENEROUS)
    assert ends == [[], [], []]
    go_on.set()


class Racing(DataLoader):
    """Is closed right behind the n-th look at what `close()` changes: another thread might do that at any time."""

    looks = -1

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in ("_pipeline", "_failure", "_closed", "_finalizer", "_stop", "_as_raised") and self.looks >= 0:
            self.looks -= 1
            if self.looks < 0:
                self.close()
        return value


@pytest.mark.parametrize("how", ["native", "threads", "failing", "skipping"])
def test_close_at_any_moment_of_next(ds: DenseDataset, how: str) -> None:
    def fail(batch: Any) -> Any:
        raise ValueError("mine")

    options: dict[str, Any] = {"native": {}, "threads": {"transform": same}}.get(how, {"transform": fail})
    skips: Any = "skip" if how == "skipping" else "raise"
    for looks in itertools.count():
        loader = Racing({"x": ds}, 1, 8, 1, on_error=skips, **options)
        loader.looks = looks
        ends: list[str] = []
        for _ in range(2):
            try:
                ends.append(type(next(loader)).__name__)
            except (StopIteration, ValueError, RuntimeError) as error:
                ends.append(f"{type(error).__name__}: {error}")
        expected = {
            "failing": ["ValueError: mine"],
            "skipping": ["RuntimeError: step 1000: the last 1000 steps failed, and none is skipped any more"],
        }.get(how, ["dict"])
        assert set(ends) <= {"StopIteration: ", *expected}
        if loader.looks >= 0 or looks > 60:
            assert looks > 4
            loader.close()
            break
        assert list(loader) == []


def test_a_thread_that_does_not_start(ds: DenseDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def fail_third(thread: threading.Thread) -> None:
        if thread.name == "loaderx-2":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_third)
    with DataLoader({"x": ds}, batch_size=8, transform=same) as loader:
        with pytest.raises(RuntimeError, match="can't start new thread"):
            next(loader)
        monkeypatch.undo()
        assert next(loader)["x"].shape == (8, 64)


def test_at_exit_every_pipeline_is_stopped(ds: DenseDataset, kind: dict[str, Any]) -> None:
    loaders = [filled(ds, kind) for _ in range(3)]
    pipelines.stop_all()
    assert not workers()
    assert [list(itertools.islice(loader, 99)) for loader in loaders] == [[], [], []]


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.usefixtures("sigint")
def test_ctrl_c_while_waiting(ds: DenseDataset) -> None:
    go_on = threading.Event()
    with DataLoader({"x": ds}, batch_size=8, transform=lambda batch: go_on.wait() and batch) as loader:
        with interrupted_soon():
            next(loader)
        go_on.set()
        assert next(loader)["x"].shape == (8, 64)
        assert loader.step == 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.usefixtures("sigint")
@pytest.mark.parametrize("timeout", [None, 60])
def test_ctrl_c_while_waiting_for_native_threads(tmp_path: Path, timeout: float | None) -> None:
    """They wait for seconds until two streams are of one moment again."""
    for name in ("a", "b"):
        from_numpy(tmp_path / name, np.arange(100), codec="raw")
    with (
        DenseDataset(tmp_path / "a") as a,
        DenseDataset(tmp_path / "b") as b,
        DataLoader({"a": a, "b": b}, batch_size=8, indices=range(90), timeout=timeout) as loader,
    ):
        a.delete([3])
        with interrupted_soon():
            next(loader)
        b.delete([3])
        batch = next(loader)
        assert np.array_equal(batch["a"], batch["b"])
        assert loader.step == 1


EXIT = """
import sys, threading, time
from loaderx import DataLoader, DenseDataset
ds = DenseDataset(sys.argv[1])
how = sys.argv[2]
options = {"transform": lambda batch: batch} if sys.argv[3] == "threads" else {}
if how == "stuck":
    options = {"transform": lambda batch: time.sleep(3600), "timeout": 0.2}
loader = DataLoader({"x": ds}, batch_size=8, **options)
try:
    next(loader)
except TimeoutError:
    pass
if how == "full":
    time.sleep(0.05)
elif how == "cycle":
    loader.self = loader
elif how == "error":
    raise SystemExit("a message")
elif how == "thread":
    thread = threading.Thread(target=lambda: [next(loader) for _ in range(50)])
    thread.start()
"""


@pytest.mark.parametrize("how", ["at once", "full", "cycle", "stuck", "error", "thread"])
def test_the_end_of_the_program(path: Path, how: str, kind: dict[str, Any]) -> None:
    for _ in range(20 if how == "at once" else 3):
        done = run_python(EXIT, str(path), how, "threads" if kind else "native")
        assert done.stderr == ("a message\n" if how == "error" else "")
        assert done.returncode == (1 if how == "error" else 0)
        assert done.stdout == ""


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_killed_program_leaves_no_process(path: Path) -> None:
    code = EXIT + "\nprint('ready', flush=True)\ntime.sleep(3600)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path), "full", "native"], stdout=subprocess.PIPE, text=True
    )
    with ending(process):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.kill()
        assert process.wait(GENEROUS) == -signal.SIGKILL
    with DenseDataset(path) as ds:
        assert ds[0].shape == (64,)
