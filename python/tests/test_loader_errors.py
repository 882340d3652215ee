"""What a loader does when a read or a transform fails, or takes too long."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
import traceback
import urllib.error
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy
from loaderx.zrecord import CorruptRecordError
from streams import COUNT, steps, unbroken
from support import GENEROUS, eventually


class TwoArguments(Exception):
    """As in many a library: it can't be made from its own `args`."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")
        self.first = first


class Frozen(BaseException):
    __slots__ = ()


ERRORS: list[Callable[[], BaseException]] = [
    lambda: ValueError("plain"),
    lambda: TwoArguments(1, 2),
    lambda: Frozen(),
    lambda: subprocess.CalledProcessError(3, ["cmd"]),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    lambda: urllib.error.HTTPError("http://x", 404, "gone", Message(), None),
    lambda: SystemExit(3),
    lambda: KeyboardInterrupt(),
    lambda: GeneratorExit(),
]


@pytest.mark.parametrize("make", ERRORS)
@pytest.mark.parametrize("workers", [1, 4])
def test_an_error_comes_at_its_step_as_the_same_object(streams: Any, make: Any, workers: int) -> None:
    error = make()
    bad = unbroken(6)[5]

    def transform(batch: Any) -> Any:
        if batch["index"].tolist() == bad:
            raise error  # the user's line
        return batch

    with DataLoader(streams, workers, 5, transform=transform) as loader:
        assert steps(loader, 5) == unbroken(5)
        depths = set()
        for _ in range(3):
            with pytest.raises(type(error)) as caught:
                next(loader)
            assert caught.value is error
            lines = traceback.extract_tb(error.__traceback__)
            depths.add(len(lines))
            assert any(line.line == "raise error  # the user's line" for line in lines)
            assert loader.step == 5
        assert len(depths) == 1
        if sys.version_info >= (3, 11) and not isinstance(error, urllib.error.HTTPError):
            assert error.__notes__ == [f"at step 5 of the DataLoader, records {bad}"]
        loader.seek(6)
        assert steps(loader, 2) == unbroken(8)[6:]


def test_seek_tries_a_failed_step_again(streams: Any) -> None:
    attempts = itertools.count()

    def transform(batch: Any) -> Any:
        if batch["index"].tolist() == unbroken(4)[3] and next(attempts) == 0:
            raise OSError("for now")
        return batch

    with DataLoader(streams, batch_size=5, transform=transform) as loader:
        assert steps(loader, 3) == unbroken(3)
        with pytest.raises(OSError, match="for now"):
            next(loader)
        loader.seek(3)
        assert steps(loader, 3) == unbroken(6)[3:]


def test_stop_iteration_does_not_end_the_loop_in_silence(streams: Any) -> None:
    with DataLoader(streams, batch_size=5, transform=lambda batch: next(iter(()))) as loader:
        with pytest.raises(RuntimeError, match="step 0: StopIteration was raised") as caught:
            next(loader)
        assert isinstance(caught.value.__cause__, StopIteration)


def test_an_error_of_a_read(tmp_path: Path) -> None:
    from_numpy(tmp_path / "ds", np.arange(COUNT), codec="raw")
    with (tmp_path / "ds" / "0.chunk").open("r+b") as file:
        file.seek(8 * 17)
        file.write(b"\xff")
    bad = next(step for step, batch in enumerate(unbroken(9)) if 17 in batch)
    with DenseDataset(tmp_path / "ds") as ds, DataLoader({"index": ds}, batch_size=5) as loader:
        assert steps(loader, bad) == unbroken(bad)
        with pytest.raises(CorruptRecordError, match="record 17"):
            next(loader)
        assert loader.step == bad


def test_a_closed_dataset(stream_root: Path) -> None:
    ds = DenseDataset(stream_root / "index")
    loader = DataLoader({"index": ds}, batch_size=5)
    ds.close()
    with loader, pytest.raises(ValueError, match="closed"):
        next(loader)


def test_timeout(streams: Any) -> None:
    go_on = threading.Event()

    def transform(batch: Any) -> Any:
        go_on.wait()
        return batch

    with DataLoader(streams, batch_size=5, transform=transform, timeout=0.05) as loader:
        for _ in range(2):
            with pytest.raises(TimeoutError, match=r"step 0: no batch within 0\.05 s"):
                next(loader)
        go_on.set()
        deadline = time.monotonic() + 30
        while not (found := list(first_or_nothing(loader))) and time.monotonic() < deadline:
            pass
        assert found == unbroken(1)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_timeout_says_from_which_step_on(streams: Any, ordered: bool) -> None:
    go_on = threading.Event()
    bad = unbroken(2)[1]

    def transform(batch: Any) -> Any:
        return batch if batch["index"].tolist() != bad or go_on.wait() else None

    with DataLoader(streams, 1, 5, transform=transform, timeout=0.5, ordered=ordered) as loader:
        assert eventually(lambda: steps(loader, 1), TimeoutError) == unbroken(1)
        where = "step 1" if ordered else "from step 1 on"
        with pytest.raises(TimeoutError, match=rf"^{where}: no batch within 0\.5 s$"):
            next(loader)
        go_on.set()


def test_a_timeout_bounds_the_wait_for_other_threads(streams: Any) -> None:
    """Not each after the other: all threads are late at the same time."""
    go_on = threading.Event()
    errors: list[BaseException] = []

    def consume() -> None:
        try:
            next(loader)
        except BaseException as error:
            errors.append(error)

    with DataLoader(streams, 1, 5, transform=lambda batch: go_on.wait(), timeout=1) as loader:
        threads = [threading.Thread(target=consume) for _ in range(30)]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GENEROUS)
        assert time.monotonic() - started < 15
        assert [str(error) for error in errors] == ["step 0: no batch within 1.0 s"] * 30
        go_on.set()
        assert next(loader) is True  # nobody has the lock


def first_or_nothing(loader: DataLoader) -> Iterator[list[int]]:
    try:
        yield next(loader)["index"].tolist()
    except TimeoutError:
        return
