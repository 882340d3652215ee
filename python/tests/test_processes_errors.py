"""What a loader does when a read or a transform fails in a worker process, and when such a process is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
import urllib.error
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transforms
from loaderx.dataloader import DataLoader, WorkerDiedError, WorkerError
from loaderx.dataloader.processes.channel import Message
from loaderx.dataloader.processes.leases import Leases
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy
from loaderx.zrecord import CorruptRecordError
from streams import COUNT, steps, unbroken
from support import run_python

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="descriptors over sockets"),
    pytest.mark.usefixtures("processes"),
]
BAD = unbroken(4)[3]


def process_loader(streams: Any, transform: Any, workers: int = 2, **options: Any) -> DataLoader:
    return DataLoader(streams, workers, 5, transform=transform, worker_type="process", **options)


ERRORS: list[tuple[Any, str]] = [
    ((ValueError, "plain"), "plain"),
    ((transforms.TwoArguments, 1, 2), "1 and 2"),
    ((transforms.Rewording, "luck"), "bad luck"),
    ((subprocess.CalledProcessError, 3, ["cmd"]), "exit status 3"),
    ((UnicodeDecodeError, "utf-8", b"\xff", 0, 1, "bad"), "can't decode byte 0xff"),
    ((urllib.error.URLError, "gone"), "gone"),
    ((FileNotFoundError, 2, "No such file", "name"), "No such file: 'name'"),
    ((transforms.Nothing,), ""),
    ((SystemExit, 3), "3"),
    ((KeyboardInterrupt,), ""),
    ((GeneratorExit,), ""),
]


@pytest.mark.parametrize(("error", "message"), ERRORS)
def test_an_error_comes_at_its_step_with_its_type(streams: Any, error: Any, message: str) -> None:
    with process_loader(streams, transforms.fails(BAD, *error)) as loader:
        assert steps(loader, 3) == unbroken(3)
        for _ in range(2):
            with pytest.raises(error[0]) as caught:
                next(loader)
            assert type(caught.value) is error[0]
            assert message in str(caught.value)
            text = "".join(traceback.format_exception(caught.value))
            assert "raise error()  # the user's line" in text
            assert loader.step == 3
        if sys.version_info >= (3, 11):
            assert caught.value.__notes__ == [f"at step 3 of the DataLoader, records {unbroken(4)[3]}"]
        loader.seek(4)
        assert steps(loader, 2) == unbroken(6)[4:]


def test_attributes_come_along(streams: Any) -> None:
    with process_loader(streams, transforms.fails(BAD, transforms.TwoArguments, 1, 2), step=3) as loader:
        with pytest.raises(transforms.TwoArguments) as caught:
            next(loader)
        assert caught.value.first == 1
    with process_loader(streams, transforms.fails(BAD, FileNotFoundError, 2, "No such file", "name"), step=3) as loader:
        with pytest.raises(FileNotFoundError) as missing:
            next(loader)
        assert (missing.value.errno, missing.value.filename) == (2, "name")


def test_an_error_that_does_not_pickle(streams: Any) -> None:
    with process_loader(streams, transforms.fails(BAD, transforms.Unpicklable, "my message"), step=3) as loader:
        with pytest.raises(WorkerError, match=r"^transforms\.Unpicklable: my message") as caught:
            next(loader)
        assert "raise error()  # the user's line" in "".join(traceback.format_exception(caught.value))
        if sys.version_info >= (3, 11):
            assert caught.value.__notes__ == [f"at step 3 of the DataLoader, records {unbroken(4)[3]}"]


def test_stop_iteration_does_not_end_the_loop_in_silence(streams: Any) -> None:
    with process_loader(streams, transforms.fails(BAD, StopIteration), step=3) as loader:
        with pytest.raises(RuntimeError, match="step 3: StopIteration was raised") as caught:
            next(loader)
        assert isinstance(caught.value.__cause__, StopIteration)


def test_an_error_of_a_read(tmp_path: Path) -> None:
    from_numpy(tmp_path / "ds", np.arange(COUNT), codec="raw")
    with (tmp_path / "ds" / "0.chunk").open("r+b") as file:
        file.seek(8 * 17)
        file.write(b"\xff")
    bad = next(step for step, batch in enumerate(unbroken(9)) if 17 in batch)
    with DenseDataset(tmp_path / "ds") as ds, process_loader({"index": ds}, transforms.plain) as loader:
        assert steps(loader, bad) == unbroken(bad)
        with pytest.raises(CorruptRecordError, match="record 17"):
            next(loader)


def test_a_result_that_does_not_pickle(streams: Any) -> None:
    with process_loader(streams, transforms.refuse) as loader:
        with pytest.raises((AttributeError, TypeError), match="lambda") as caught:
            next(loader)
        if sys.version_info >= (3, 11):
            assert "at step 0 of the DataLoader: what transform returned can't be sent" in caught.value.__notes__[0]


def test_a_result_that_only_its_worker_can_read(streams: Any) -> None:
    with process_loader(streams, transforms.opaque) as loader:
        with pytest.raises(ValueError, match="only there") as caught:
            next(loader)
        if sys.version_info >= (3, 11):
            assert "at step 0 of the DataLoader, when the result" in caught.value.__notes__[0]


def test_a_transform_that_does_not_pickle(streams: Any) -> None:
    with process_loader(streams, lambda batch: batch) as loader:
        with pytest.raises(
            TypeError, match=r"transform: <function .*lambda.*define it at the top level of a module"
        ) as caught:
            next(loader)
        assert "worker_type='thread'" in str(caught.value)
        assert loader.step == 0


def test_a_stream_that_was_written_to(tmp_path: Path) -> None:
    with DenseDataset(tmp_path / "ds", dtype="i8", item_shape=()) as ds:
        ds.append(np.arange(COUNT))
        loader = process_loader({"index": ds}, transforms.plain)
        with loader, pytest.raises(TypeError, match="streams: 'index': DenseDataset can't be sent.*it has written to"):
            next(loader)


def test_streams_that_are_gone(tmp_path: Path) -> None:
    from_numpy(tmp_path / "ds", np.arange(COUNT))
    with DenseDataset(tmp_path / "ds") as ds, process_loader({"index": ds}, transforms.plain) as loader:
        (tmp_path / "ds").rename(tmp_path / "elsewhere")
        with pytest.raises(FileNotFoundError, match="the pickled dataset is gone") as caught:
            next(loader)
        if sys.version_info >= (3, 11):
            assert "while a worker process opened the streams" in caught.value.__notes__[0]
        (tmp_path / "elsewhere").rename(tmp_path / "ds")
        loader.seek(0)
        assert steps(loader, 2) == unbroken(2)


@pytest.mark.parametrize(
    "transform", [transforms.fails(BAD, MemoryError), partial(transforms.at, BAD, transforms.exhaust)]
)
def test_memory_that_ran_out_is_not_skipped(streams: Any, transform: Any) -> None:
    with process_loader(streams, transform, on_error="skip") as loader:
        assert steps(loader, 3) == unbroken(3)
        with pytest.raises(MemoryError):
            next(loader)
        assert (loader.step, loader.stats().skipped) == (3, 0)


def test_other_errors_of_a_worker_are_skipped(streams: Any) -> None:
    with process_loader(streams, transforms.fails(BAD, OSError, 2, "No such file"), on_error="skip") as loader:
        assert steps(loader, 5) == unbroken(3) + unbroken(6)[4:]
        assert loader.stats().skipped == 1


@pytest.mark.parametrize("fault", ["no descriptor was left", "cannot map"])
def test_a_result_that_is_not_handed_over_is_not_skipped(
    streams: Any, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The step is as good as any; in another run it would come."""
    learn = Leases.learn

    def fail_at(leases: Leases, message: Message, descriptor: int | None) -> None:
        if message.step == 1 and descriptor is not None:
            os.close(descriptor)
            if fault == "cannot map":
                raise PermissionError(1, fault)
            descriptor = None
        learn(leases, message, descriptor)

    monkeypatch.setattr(Leases, "learn", fail_at)
    with process_loader(streams, transforms.plain, on_error="skip") as loader:
        assert steps(loader, 1) == unbroken(1)
        with pytest.raises(OSError, match=fault):
            next(loader)
        assert (loader.step, loader.stats().skipped) == (1, 0)
        monkeypatch.undo()
        loader.seek(1)
        assert steps(loader, 4) == unbroken(5)[1:]


def test_a_worker_that_cannot_open_the_streams_is_not_skipped(tmp_path: Path) -> None:
    """It would fail at each of its steps, which the others' steps would hide."""
    from_numpy(tmp_path / "ds", np.arange(COUNT))
    loader_of = partial(process_loader, transform=transforms.plain, on_error="skip")
    with DenseDataset(tmp_path / "ds") as ds, loader_of({"index": ds}) as loader:
        (tmp_path / "ds").rename(tmp_path / "elsewhere")
        with pytest.raises(FileNotFoundError, match="the pickled dataset is gone"):
            next(loader)
        assert (loader.step, loader.stats().skipped) == (0, 0)


DEATHS = [
    ("exit", "ended with exit code 3"),
    ("SIGKILL", r"was killed by SIGKILL \(the system does that where memory runs out\)"),
    ("SIGTERM", "was killed by SIGTERM"),
    ("fault", r"was killed by SIGSEGV \(a fault in native code"),
]


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
@pytest.mark.parametrize(("how", "message"), DEATHS)
def test_a_worker_that_dies(streams: Any, how: str, message: str, method: str, capfd: Any) -> None:
    with process_loader(streams, transforms.dies(BAD, how), start_method=method) as loader:
        assert steps(loader, 3) == unbroken(3)
        for _ in range(2):
            with pytest.raises(WorkerDiedError, match=f"^step 3: worker process [0-9]+ {message}"):
                next(loader)
            assert loader.step == 3
        loader.seek(4)
        assert steps(loader, 2) == unbroken(6)[4:]


def test_an_idle_worker_that_is_killed(streams: Any) -> None:
    """Batches that it has handed over are still given."""
    with process_loader(streams, transforms.who, workers=1) as loader:
        victim, _ = next(loader)
        deadline = time.monotonic() + 30
        while loader.stats().ready < 5 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(victim, signal.SIGKILL)
        assert [next(loader)[1].tolist() for _ in range(5)] == unbroken(6)[1:]
        with pytest.raises(WorkerDiedError, match=f"^step 6: worker process {victim} was killed by SIGKILL"):
            next(loader)


def test_timeout(streams: Any, tmp_path: Path) -> None:
    with process_loader(streams, partial(transforms.wait_for, str(tmp_path / "go")), timeout=0.05) as loader:
        for _ in range(2):
            with pytest.raises(TimeoutError, match=r"step 0: no batch within 0\.05 s"):
                next(loader)
        (tmp_path / "go").touch()
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                assert next(loader)["index"].tolist() == unbroken(1)[0]
                break
            except TimeoutError:
                continue
        assert loader.step == 1


def test_an_unguarded_main_in_memory(stream_root: Path) -> None:
    """A function that no worker can import is an error that says so."""
    code = """
import sys
from loaderx import DataLoader, MSDataset
def mine(batch): return batch
with MSDataset(sys.argv[1], read_only=True) as ds, DataLoader(ds, 1, 5, transform=mine, worker_type="process") as loader:
    next(loader)
"""
    done = run_python(code, str(stream_root))
    assert done.returncode == 1
    assert "AttributeError: Can't get attribute 'mine'" in done.stderr
    if sys.version_info >= (3, 11):
        assert "looked up the transform, which must be in a module's file" in done.stderr
