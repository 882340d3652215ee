"""What other processes do to a store in `test_killed.py` and `test_stress.py`."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

from loaderx.zrecord import Io, StoreLockedError
from twin import Kind, dataset, identities_of, in_small_chunks, operations


def work(path: Path, kind: Kind, before: Sequence[int], fresh: int, seed: int, alone: bool, log: Connection) -> None:
    """Do what the seed says, for ever. Each operation is told before and after it is done."""
    ds = in_small_chunks(path, kind)
    for operation in operations(before, fresh, seed, alone=alone):
        log.send_bytes(b"begin")
        try:
            operation.apply(ds, kind)
        except StoreLockedError:
            assert not alone
            assert operation.name in ("delete", "compact")
        else:
            assert alone or operation.name in ("append", "sync")
        log.send_bytes(b"done")


def follow(path: Path, kind: Kind, io: Io, stop: Event, answer: Connection) -> None:
    """Read again and again: always right, always what there was and perhaps more.

    Answers "open", "grown" when it was more twice, and in the end (reads, times that it was more, identities).
    """
    seen: list[int] = []
    rng = random.Random(os.getpid())
    reads = grown = 0
    with dataset(path, kind, read_only=True, io=io) as ds:
        answer.send("open")
        while True:
            last = stop.is_set()
            before = len(ds)
            length = ds.refresh()
            known = rng.sample(range(len(seen)), min(100, len(seen)))
            found = identities_of(kind, ds[[*known, *range(len(seen), length)]])
            assert found[: len(known)] == [seen[index] for index in known]
            seen += found[len(known) :]
            reads += 1
            grown += length > before
            if length > before and grown == 2:
                answer.send("grown")
            if last:
                break
            time.sleep(0.001)
        assert identities_of(kind, ds[:]) == seen
    answer.send((reads, grown, seen))


def hold(path: Path, kind: Kind, writes: bool, stop: Event, answer: Connection) -> None:
    """Keep the store open, as its writer or as a reader."""
    with dataset(path, kind) as ds:
        if writes:
            ds._store.begin_write()
        answer.send(os.getpid())
        stop.wait()


GROUP = 8
"""Records that are appended, and deleted, together where whoever opens the store must be able to tell a half."""


def open_and_close(path: Path, kind: Kind, read_only: bool, stop: Event, answer: Connection) -> None:
    """Open the store again and again while another process deletes and compacts. Answers (times opened, times refused)."""
    opened = refused = 0
    rng = random.Random(os.getpid())
    while not stop.is_set():
        try:
            ds = dataset(path, kind, read_only=read_only)
        except StoreLockedError:
            refused += 1
            continue
        with ds:
            found = identities_of(kind, ds[:])
            assert found == identities_of(kind, ds[:])
            whole = {
                member for first in found for member in range(first - first % GROUP, first - first % GROUP + GROUP)
            }
            assert set(found) == whole
            assert len(found) == len(whole)
        opened += 1
        if opened == 1:
            answer.send("open")
        time.sleep(rng.uniform(0, 0.06))
    answer.send((opened, refused))
