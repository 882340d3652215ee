"""No loader: two processes gather and transform every second batch each, and leave it in memory that the consumer reads too."""

from __future__ import annotations

import mmap
import multiprocessing
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.loaders.gathers import arrays
from engines.loaders.gathers import open_loader as gathers

PACKAGE = "loaderx"
__all__ = ["PACKAGE", "arrays", "close", "open_loader"]

WORKERS = 2
AHEAD = 2
"""Batches that a worker has room for."""
Transform = Callable[[dict[str, Any]], dict[str, Any]]
fork = multiprocessing.get_context("fork")


class Worker:
    """One of the processes, and its batches in turn."""

    def __init__(self, path: Path, batch: int, transform: Transform, number: int) -> None:
        example = transform(next(gathers(path, batch)))
        self.rooms = [{name: shared(values) for name, values in example.items()} for _ in range(AHEAD)]
        self.free, self.ready = fork.Semaphore(AHEAD), fork.Semaphore(0)
        self.process = fork.Process(target=self.work, args=(path, batch, transform, number), daemon=True)
        self.process.start()

    def work(self, path: Path, batch: int, transform: Transform, number: int) -> None:
        for i, gathered in enumerate(islice(gathers(path, batch), number, None, WORKERS)):
            made = transform(gathered)
            self.free.acquire()
            for name, room in self.rooms[i % AHEAD].items():
                room[...] = made[name]
            self.ready.release()

    def batches(self) -> Iterator[dict[str, Any]]:
        while True:
            for room in self.rooms:
                self.ready.acquire()
                yield room
                self.free.release()


def shared(like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array of this form in memory that forked processes share."""
    room: npt.NDArray[Any] = np.ndarray(like.shape, like.dtype, mmap.mmap(-1, like.nbytes))
    return room


class Turns:
    """The workers' batches in turn."""

    def __init__(self, workers: list[Worker]) -> None:
        self.workers = workers
        self.batches = (batch for turn in zip(*(worker.batches() for worker in workers), strict=True) for batch in turn)

    def __next__(self) -> dict[str, Any]:
        return next(self.batches)


def open_loader(path: Path, batch: int, *, transform: Transform) -> Turns:
    return Turns([Worker(path, batch, transform, number) for number in range(WORKERS)])


def close(loader: Turns) -> None:
    for worker in loader.workers:
        worker.process.terminate()
        worker.process.join()
