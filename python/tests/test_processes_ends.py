"""How a loader with worker processes ends: as one with threads does, and by a kill of either side. No process and no memory is left."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import transforms
from loaderx.dataloader import DataLoader
from loaderx.dataloader import pipeline as pipelines
from loaderx.dataloader.processes import Processes, starting
from streams import unbroken
from support import GENEROUS, ending, interrupted_soon, run_python, soon

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="descriptors over sockets"),
    pytest.mark.usefixtures("processes"),
]


def workers() -> list[Any]:
    """The processes of this one's loaders that are there."""
    return [process for process in starting.children if process.exitcode is None]


def there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    gc.collect()
    assert soon(lambda: not workers())
    assert soon(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("loaderx-")])


def filled(streams: Any, **options: Any) -> DataLoader:
    """A loader that has given one batch and then filled its queue."""
    loader = DataLoader(streams, 2, 5, worker_type="process", **options)
    next(loader)
    assert soon(lambda: loader.stats().ready == 2 + 4)
    return loader


def test_processes_start_with_the_first_batch(streams: Any) -> None:
    with DataLoader(streams, 3, 5, worker_type="process") as loader:
        assert not workers()
        next(loader)
        assert len(workers()) == 3
    assert not workers()


def test_close(streams: Any) -> None:
    loader = filled(streams)
    start = time.monotonic()
    loader.close()
    assert time.monotonic() - start < GENEROUS / 2
    assert not workers()
    assert list(loader) == []


def test_with_and_break(streams: Any) -> None:
    with filled(streams) as loader:
        for _ in loader:
            break
    assert not workers()


def test_the_last_reference_and_a_cycle(streams: Any) -> None:
    for cyclic in (False, True):
        loader = filled(streams)
        if cyclic:
            loader.self = loader  # type: ignore[attr-defined]
        reference = weakref.ref(loader)
        del loader
        gc.collect()
        assert reference() is None
        assert soon(lambda: not workers())


def test_seek_starts_others(streams: Any) -> None:
    with filled(streams) as loader:
        loader.seek(9)
        assert next(loader)["index"].tolist() == unbroken(10)[9]
        assert soon(lambda: len(workers()) == 2)


def test_prefetching_is_bounded(streams: Any, tmp_path: Path) -> None:
    """Each step leaves a file."""
    with DataLoader(
        streams, 2, 5, 3, transform=partial(transforms.leave, str(tmp_path)), worker_type="process"
    ) as loader:
        for step in range(4):
            next(loader)
            assert soon(lambda: len(list(tmp_path.iterdir())) >= step + 1 + 2 + 3)  # noqa: B023
            time.sleep(0.02)
            assert len(list(tmp_path.iterdir())) == step + 1 + 2 + 3


@pytest.mark.parametrize("transform", [partial(transforms.sleep, 3600), transforms.hold_interpreter])
def test_close_ends_a_stuck_transform(streams: Any, transform: Any) -> None:
    """In Python, and in native code that holds the interpreter."""
    loader = DataLoader(streams, 2, 5, transform=transform, timeout=0.5, worker_type="process")
    with pytest.raises(TimeoutError):
        next(loader)
    start = time.monotonic()
    loader.close()
    assert time.monotonic() - start < GENEROUS / 2
    assert not workers()


def test_a_dropped_loader_ends_a_stuck_transform(streams: Any) -> None:
    loader = DataLoader(streams, 2, 5, transform=partial(transforms.sleep, 3600), timeout=0.5, worker_type="process")
    with pytest.raises(TimeoutError):
        next(loader)
    del loader
    gc.collect()
    assert soon(lambda: not workers())


def test_close_wakes_a_consumer_that_waits(streams: Any, tmp_path: Path) -> None:
    loader = DataLoader(
        streams, 2, 5, transform=partial(transforms.wait_for, str(tmp_path / "go")), worker_type="process"
    )
    ends: list[list[Any]] = []
    consumers = [threading.Thread(target=lambda: ends.append(list(loader))) for _ in range(3)]
    for consumer in consumers:
        consumer.start()
    assert soon(workers)
    loader.close()
    for consumer in consumers:
        consumer.join(GENEROUS)
    assert ends == [[], [], []]


def test_a_process_that_does_not_start(streams: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    start = multiprocessing.process.BaseProcess.start

    def fail_second(process: Any) -> None:
        if process.name == "loaderx-1":
            raise OSError("can't start new process")
        start(process)

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", fail_second)
    with DataLoader(streams, 2, 5, worker_type="process") as loader:
        with pytest.raises(OSError, match="can't start new process"):
            next(loader)
        monkeypatch.undo()
        assert next(loader)["index"].tolist() == unbroken(1)[0]


def test_at_exit_every_pipeline_is_stopped(streams: Any) -> None:
    loaders = [filled(streams) for _ in range(2)]
    pipelines.stop_all()
    assert soon(lambda: not workers())
    assert [list(itertools.islice(loader, 99)) for loader in loaders] == [[], []]


@pytest.mark.usefixtures("sigint")
def test_ctrl_c_while_waiting(streams: Any, tmp_path: Path) -> None:
    transform = partial(transforms.wait_for, str(tmp_path / "go"))
    with DataLoader(streams, 2, 5, transform=transform, worker_type="process") as loader:
        with interrupted_soon():
            next(loader)
        (tmp_path / "go").touch()
        assert next(loader)["index"].tolist() == unbroken(1)[0]


PROGRAM = """
import functools, os, sys, time
import transforms
from loaderx import DataLoader, MSDataset

ds = MSDataset(sys.argv[1], read_only=True)
how, method = sys.argv[2:4]
if __name__ == "__main__":
    slow = functools.partial(transforms.sleep, 3600)
    loader = DataLoader(ds, 2, 5, transform=slow if "stuck" in how else transforms.plain, timeout=0.1 if "stuck" in how else None,
                        worker_type="process", start_method=method)
    try:
        next(loader)
    except TimeoutError:
        pass
    while not all(worker.control.begun for worker in loader._pipeline._workers) and how != "at once":
        time.sleep(0.01)
    if how == "full":
        time.sleep(0.1)
    elif how == "cycle":
        loader.self = loader
    elif how == "error":
        raise SystemExit("a message")
    elif how.startswith("wait"):
        print(*[worker.process.pid for worker in loader._pipeline._workers], flush=True)
        if how == "wait in fork" and os.fork():
            time.sleep(3600)
        loader._timeout = None
        while True:
            next(loader)
"""


@pytest.mark.parametrize(
    ("how", "method"),
    [
        ("at once", "forkserver"),
        ("at once", "spawn"),
        ("full", "spawn"),
        ("cycle", "forkserver"),
        ("stuck", "forkserver"),
        ("error", "spawn"),
    ],
)
def test_the_end_of_the_program(stream_root: Path, how: str, method: str) -> None:
    done = run_python(PROGRAM, str(stream_root), how, method, cwd=Path(__file__).parent)
    assert done.stderr == ("a message\n" if how == "error" else "")
    assert done.returncode == (1 if how == "error" else 0)
    assert done.stdout == ""


def started(stream_root: Path, how: str, method: str, **options: Any) -> tuple[subprocess.Popen[str], list[int]]:
    """The program as it waits, and the ids of its workers."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(stream_root), how, method],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
        **options,
    )
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert len(pids) == 2
    return process, pids


@pytest.mark.parametrize(("how", "method"), [("wait", "spawn"), ("wait, stuck", "forkserver")])
def test_a_killed_program_leaves_no_process(stream_root: Path, how: str, method: str) -> None:
    process, pids = started(stream_root, how, method)
    with ending(process):
        assert all(there(pid) for pid in pids)
        assert_nameless(pids)
        process.kill()
        assert process.wait(GENEROUS) == -signal.SIGKILL
        start = time.monotonic()
        assert soon(lambda: not any(there(pid) for pid in pids))
        assert time.monotonic() - start < GENEROUS / 2  # at once, on a quiet machine


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="the end of a process is not told")
def test_a_killed_program_whose_forked_child_lives(stream_root: Path) -> None:
    """The child has all the descriptors that the workers could listen on."""
    process, pids = started(stream_root, "wait in fork", "forkserver", start_new_session=True)
    with ending(process):
        try:
            process.kill()
            process.wait(GENEROUS)
            assert soon(lambda: not any(there(pid) for pid in pids))
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize(("how", "method"), [("wait", "spawn"), ("wait, stuck", "forkserver")])
def test_ctrl_c_at_a_terminal(stream_root: Path, how: str, method: str) -> None:
    """All processes get the signal; one of them says so, and all end."""
    process, pids = started(stream_root, how, method, start_new_session=True, preexec_fn=heed_interrupts)
    with ending(process):
        time.sleep(0.2)
        start = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=GENEROUS)
        assert time.monotonic() - start < GENEROUS / 2
        assert errors.count("Traceback") == 1
        assert errors.rstrip().endswith("KeyboardInterrupt")
        assert process.returncode == -signal.SIGINT
        assert not any(there(pid) for pid in pids)


def assert_nameless(pids: list[int]) -> None:
    """What they share has no name, so there is nothing that could be left."""
    for pid in pids:
        shared = Path(f"/proc/{pid}/maps")
        if shared.exists():
            assert "memfd:loaderx" in shared.read_text()
            assert "/dev/shm" not in shared.read_text()


def heed_interrupts() -> None:
    """Shells let programs in their background ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_stop_may_be_called_from_anywhere(streams: Any) -> None:
    """Twice, before the start, and with nobody to join."""
    loader = filled(streams)
    pipeline = loader._pipeline
    assert isinstance(pipeline, Processes)
    pipeline.stop()
    pipeline.stop()
    assert list(loader) == []
    idle = Processes(pipeline.plan, 0, pipelines.Options(2, 1, 1 << 30, "process", None))
    idle.stop()
    idle.join()
