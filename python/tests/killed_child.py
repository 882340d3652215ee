"""Processes of `test_killed.py`: one that works on a store until it is killed, and one that reads on meanwhile."""

from __future__ import annotations

import os
import random
import time
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
    """Read again and again: always right, always what there was and perhaps more. Answers (reads, identities)."""
    seen: list[int] = []
    rng = random.Random(os.getpid())
    reads = 0
    with dataset(path, kind, read_only=True, io="pread" if os.getpid() % 2 else "mmap") as ds:
        answer.send("open")
        while True:
            last = stop.is_set()
            length = ds.refresh()
            known = rng.sample(range(len(seen)), min(100, len(seen)))
            found = identities_of(kind, ds[[*known, *range(len(seen), length)]])
            assert found[: len(known)] == [seen[index] for index in known]
            seen += found[len(known) :]
            reads += 1
            if last:
                break
            time.sleep(0.001)
        assert identities_of(kind, ds[:]) == seen
    answer.send((reads, seen))
