"""Processes of `test_killed.py`: one that works on a store until it is killed, and one that reads on meanwhile."""

from __future__ import annotations

import os
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

from loaderx.zrecord import StoreLockedError
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


def follow(path: Path, kind: Kind, stop: Event, answer: Connection) -> None:
    """Read all there is again and again: always right, always what there was and perhaps more. Answers (reads, identities)."""
    seen: list[int] = []
    reads = 0
    with dataset(path, kind, read_only=True, io="pread" if os.getpid() % 2 else "mmap") as ds:
        answer.send("open")
        while True:
            last = stop.is_set()
            length = ds.refresh()
            found = identities_of(kind, ds[:])
            assert len(found) == length
            assert found[: len(seen)] == seen
            seen = found
            reads += 1
            if last:
                break
    answer.send((reads, seen))
