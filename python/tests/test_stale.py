"""Handles that have no lock, or only a share in their parent's: they notice that records were moved, and return no others."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from loaderx.zrecord import StaleStoreError, StoreLockedError
from support import fork, unchanged
from twin import Dataset, Kind, are, batch, dataset, identities_of, in_small_chunks, small_store, writes

PATIENCE = 60
THERE = range(20)
"""What a small store holds."""


@pytest.fixture(params=["dense", "ragged"])
def store(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, Kind]:
    return small_store(tmp_path / "s", request.param)


@contextmanager
def gone_stale(store: tuple[Path, Kind], change: str) -> Iterator[Dataset]:
    """A handle that lost its lock, as on a file system that forgets it, and whose records were moved by another since."""
    path, kind = store
    with in_small_chunks(path, kind) as ds:
        if change == "compact":
            ds.delete([0])
    with dataset(path, kind, io="pread") as stale:
        assert len(stale[:]) == len(stale)
        for descriptor in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                if descriptor.readlink() == path / "meta.zr":
                    fcntl.flock(int(descriptor.name), fcntl.LOCK_UN)
        with in_small_chunks(path, kind) as ds:
            ds.compact() if change == "compact" else ds.delete([0, 7])
            ds.append(batch(kind, range(100, 110)))
        yield stale


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the lock can't be taken away")
moving = pytest.mark.parametrize("change", ["delete", "compact"])


@needs_proc
@moving
def test_a_handle_whose_records_were_moved_neither_refreshes_nor_writes(store: tuple[Path, Kind], change: str) -> None:
    kind = store[1]
    with gone_stale(store, change) as stale, unchanged(store[0]):
        for work in (stale.refresh, *writes(stale, kind)):
            with pytest.raises(StaleStoreError, match="deleted from or compacted since it was opened.*reopen"):
                work()


@needs_proc
@moving
def test_a_handle_whose_records_were_moved_reads_no_others(store: tuple[Path, Kind], change: str) -> None:
    with gone_stale(store, change) as stale:
        for index in (0, 7, [0, 7], slice(None)):
            with pytest.raises(StaleStoreError, match="deleted from or compacted since it was opened.*reopen"):
                stale[index]
        with pytest.raises(StaleStoreError):
            stale.lengths(0)


def in_forked_child(work: Callable[[], Any]) -> Callable[[], str]:
    """Fork now, and let the child work when what is returned is called; that returns what came of it."""
    start, go = os.pipe()
    answer, tell = os.pipe()
    child = fork()
    if child == 0:
        try:
            os.close(go)
            os.read(start, 1)
            os.write(tell, repr(work()).encode())
        except BaseException as error:
            os.write(tell, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(start)
    os.close(tell)

    def finish() -> str:
        os.close(go)
        with os.fdopen(answer, "rb") as answers:
            text = answers.read().decode()
        os.waitpid(child, 0)
        return text

    return finish


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_records_that_were_moved_under_a_forked_child(store: tuple[Path, Kind]) -> None:
    """A parent that closes gives up the lock that its children have a share in: they must notice what happens then."""
    path, kind = store
    ds = dataset(path, kind)
    assert are(kind, ds[:], THERE)
    early = in_forked_child(lambda: are(kind, ds[:], THERE))
    assert early() == "True"
    late = in_forked_child(lambda: identities_of(kind, ds[:]))
    ds.close()
    with dataset(path, kind) as other:
        other.delete([0, 7])
    assert late() == "StaleStoreError"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_records_do_not_move_under_a_forked_child_that_reads(store: tuple[Path, Kind]) -> None:
    path, kind = store
    ds = dataset(path, kind)
    assert are(kind, ds[:], THERE)
    reading, telling = os.pipe()
    waiting, going_on = os.pipe()

    def read_twice() -> bool:
        first = are(kind, ds[:], THERE)
        os.write(telling, b"x")
        os.read(waiting, 1)
        return first and are(kind, ds[:], THERE)

    child = in_forked_child(read_twice)
    finish = threading.Thread(target=lambda: answers.append(child()))
    answers: list[str] = []
    finish.start()
    os.read(reading, 1)
    with pytest.raises(StoreLockedError, match="needs the store alone"):
        ds.delete([0, 7])
    ds.close()
    with dataset(path, kind) as other, pytest.raises(StoreLockedError, match="needs the store alone"):
        other.delete([0, 7])
    os.write(going_on, b"x")
    finish.join(PATIENCE)
    assert answers == ["True"]
    os.close(reading)
    os.close(telling)
    with dataset(path, kind) as other:
        other.delete([0, 7])
