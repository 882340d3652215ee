"""Passes over a data set, and what the process has of everything after each: a program for `test_leaks.py`.

Its arguments are the directory of the streams and what a pass is. Prints a line a pass: bytes of memory that is no file's, open files,
threads, and objects that the garbage collector knows; of worker processes, too, where they last.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import proc
import transforms
from loaderx import DataLoader, DenseDataset, MSDataset, RaggedDataset

RECORDS, WIDTH = 1000, 1024
BATCH = 20
"""Small, so that no batch's memory is kept for the next."""
WARM, PASSES = 5, 20


def gathers(streams: MSDataset) -> None:
    dense, ragged = streams["dense"], streams["ragged"]
    assert isinstance(dense, DenseDataset)
    assert isinstance(ragged, RaggedDataset)
    out = np.empty((BATCH, WIDTH), np.uint8)
    for start in range(0, RECORDS, BATCH):
        part = slice(start, start + BATCH)
        for ds in streams.streams.values():
            ds[part]
            ds[np.arange(start, start + BATCH)]
            ds[start]
            ds.lengths(part)
        ragged.packed(part)
        ragged.shapes(part)
        dense.gather(part, out)
    streams.memory()
    for ds in streams.streams.values():
        assert sum(1 for _ in ds) == RECORDS
        ds.stats()


def refused(streams: MSDataset) -> None:
    for _ in range(100):
        for ds in streams.streams.values():
            for index in ([RECORDS], [-RECORDS - 1], "name", np.zeros(3), RECORDS):
                try:
                    ds[index]
                except (IndexError, TypeError, ValueError):
                    continue
                raise AssertionError(index)


def opened(streams: MSDataset) -> None:
    for number in range(40):
        with MSDataset(streams.path, read_only=True) as found:
            gathered = found["ragged"][number], found["dense"][:BATCH]
            view = found["dense"].view(0, BATCH)  # type: ignore[union-attr]
            found.drop_resident()
            assert len(gathered[1]) == len(view)
        assert len(DenseDataset(streams.path / "dense")[:BATCH]) == BATCH  # never closed


def written(streams: MSDataset) -> None:
    rows = np.random.default_rng(0).integers(0, 256, (50, WIDTH), np.uint8)
    with DenseDataset(streams.path.with_name("written"), np.uint8, (WIDTH,), "zstd") as ds:
        for _ in range(10):
            ds.append(rows)
            ds.delete(slice(0, 10))
        ds.delete(slice(0, len(ds)))
        ds.compact()


def loader(streams: MSDataset, how: str) -> DataLoader:
    options: dict[str, Any] = {} if how == "native" else {"transform": transforms.plain}
    return DataLoader(streams, 2, BATCH, worker_type="process" if how == "processes" else "thread", **options)


def batches(made: DataLoader) -> None:
    assert sum(1 for _ in made.take(4 * RECORDS // BATCH)) == 4 * RECORDS // BATCH


def private(processes: list[Any]) -> int:
    return sum(proc.status("RssAnon", found) + proc.status("RssShmem", found) for found in ["self", *processes])


def count(what: str) -> int:
    return len(os.listdir(f"/proc/self/{what}"))  # noqa: PTH208


class Reports:
    """A line after each pass."""

    def __init__(self) -> None:
        self._fewest = sys.maxsize

    def report(self, processes: list[Any]) -> None:
        """Late threads are waited for, for a while: a loader's close() does so for half a second only."""
        end = time.monotonic() + 5
        while count("task") > self._fewest and time.monotonic() < end:
            time.sleep(0.02)
        gc.collect()
        threads = count("task")
        self._fewest = min(self._fewest, threads)
        facts = (private(processes), count("fd"), threads, len(gc.get_objects()))
        sys.stdout.write(f"{' '.join(map(str, facts))}\n")


def run(streams: MSDataset, what: str) -> None:
    ways: dict[str, Callable[[MSDataset], None]] = {
        "gathers": gathers,
        "refused": refused,
        "opened": opened,
        "written": written,
    }
    processes: list[int] = []
    report = Reports().report
    if what in ways:
        for _ in range(WARM + PASSES):
            ways[what](streams)
            report(processes)
    elif what.startswith("new "):
        for _ in range(WARM + PASSES):
            with loader(streams, what.removeprefix("new ")) as made:
                batches(made)
            assert not multiprocessing.active_children()
            report(processes)
    else:
        with loader(streams, what) as made:
            for _ in range(WARM + PASSES):
                batches(made)
                pipeline: Any = made._pipeline
                if what == "processes":
                    processes = [worker.process.pid for worker in pipeline._workers]
                report(processes)


if __name__ == "__main__":
    with MSDataset(sys.argv[1]) as opened_streams:
        run(opened_streams, sys.argv[2])
