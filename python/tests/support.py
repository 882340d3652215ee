"""What several tests need: stores to work on, and whether anything on disk changed."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[Any]
T = TypeVar("T")

CODECS = ("raw", "zstd", "zstd_dict")
READ_OPTIONS: list[dict[str, Any]] = [{}, {"verify": "never"}, {"io": "pread"}, {"io": "mmap"}, {"read_only": True}]


IS_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
"""Whether this Python has no interpreter's lock."""

GENEROUS = 30.0
"""Seconds that a slow machine may take for what a quiet one does at once."""

AMPLE = 1 << 30
"""Bytes of memory that tests may keep files in."""


def soon(condition: Callable[[], Any], seconds: float = GENEROUS) -> bool:
    """Whether the condition comes true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def eventually(attempt: Callable[[], T], *refused: type[BaseException], seconds: float = GENEROUS) -> T:
    """What an attempt gives once it isn't refused; the last refusal if that lasts."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except refused:
            if time.monotonic() > deadline:
                raise


def in_memory() -> Path | None:
    """A directory in memory that tests may use; None where there is no such thing, or it is as small as in containers."""
    shared = Path("/dev/shm")
    ample = os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > AMPLE
    return shared if ample else None


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """What a signal's handler raises in the garbage collector's callbacks (hypothesis has one) is lost in Python itself."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextlib.contextmanager
def interrupted_soon(within: float = GENEROUS / 2) -> Iterator[None]:
    """What is done in it gets a Ctrl-C, which ends it within so many seconds (a quiet machine takes a tenth).

    It would last for ever, or as good as. Nothing of the signal gets out, whenever it comes: that would end all tests.
    """
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.3, interrupt)
    with collector_paused():
        with pytest.raises(KeyboardInterrupt):
            try:
                timer.start()
                yield
            finally:
                timer.cancel()
                timer.join()
        assert time.monotonic() - sent[0] < within


@contextlib.contextmanager
def ending(process: subprocess.Popen[Any]) -> Iterator[None]:
    """A program that doesn't outlive the block, also where that fails."""
    with process:
        try:
            yield
        finally:
            process.kill()


def contents(directory: Path, but: str = "") -> dict[str, str]:
    """Every file below `directory`, except those called `but`, and the SHA-256 of its bytes."""
    return {
        str(file.relative_to(directory)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(directory.rglob("*"))
        if file.is_file() and file.name != but
    }


@contextlib.contextmanager
def unchanged(directory: Path, but: str = "") -> Iterator[None]:
    before = contents(directory, but)
    yield
    assert contents(directory, but) == before


def same(got: Any, want: Any) -> bool:
    """The same dtype, shape and bits (so NaNs count as equal to themselves)."""
    got, want = np.asarray(got), np.asarray(want)
    return bool(got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes())


def all_same(got: Sequence[Any], want: Sequence[Any]) -> bool:
    return len(got) == len(want) and all(same(a, b) for a, b in zip(got, want, strict=True))


def swap_last(records: Iterable[Any], indices: Iterable[int]) -> list[Any]:
    """The naive twin of deletion: from the highest index down, the last record takes the place of the deleted one."""
    kept = list(records)
    for index in sorted(set(indices), reverse=True):
        kept[index] = kept[-1]
        kept.pop()
    return kept


def images(count: int, seed: int = 0) -> npt.NDArray[np.uint8]:
    """Small pictures that resemble one another, as a dictionary likes them: shape (count, 8, 8)."""
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 200, (8, 8), dtype=np.uint8)
    return base + rng.integers(0, 4, (count, 8, 8), dtype=np.uint8)


@contextlib.contextmanager
def forking() -> Iterator[None]:
    """No warnings of forks beside threads: readers have a pool of them, and surviving that is what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def fork() -> int:
    """`os.fork` without the warning."""
    with forking():
        return os.fork()


def in_child(work: Callable[..., Any]) -> int:
    """Run `work` in a forked child; its exit status."""
    child = fork()
    if child == 0:
        status = 1
        try:
            status = int(work())
        finally:
            os._exit(status)
    return ended(child)


def ended(child: int, patience: float = 60) -> int:
    """The exit code of a child: negative for the signal that killed it. AssertionError for one that does not end; it is killed."""
    limit = time.monotonic() + patience
    while time.monotonic() < limit:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"the child hangs for {patience} s")


def run_python(code: str, *arguments: str, timeout: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `code` in a fresh interpreter with all warnings shown."""
    return subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=os.environ | {"PYTHONFAULTHANDLER": "1"},
        **options,
    )
