"""What worker processes take over stores of very many records: a program for `test_memory_workers.py`.

Prints two figures of this process and its workers together, in bytes of PSS: with workers that have nothing to do with many records, and
with those that read them. Its arguments are the directory of the stores, whose loader it is, and the number of workers.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from typing import Any

import proc
import transforms
from loaderx import DataLoader, DenseDataset, MSDataset
from loaderx.dataloader.processes.starting import method

BATCH = 64
STEPS = 40
"""Of each worker."""
PATIENCE = 120


def bare(told: Any, go_on: Any) -> None:
    told.release()
    go_on.wait(PATIENCE)


def beside_bare(count: int) -> int:
    """With processes that have imported what workers import, and no more."""
    context: Any = multiprocessing.get_context(method(None))
    told, go_on = context.Semaphore(0), context.Event()
    processes = [context.Process(target=bare, args=(told, go_on)) for _ in range(count)]
    for process in processes:
        process.start()
    for _ in processes:
        assert told.acquire(timeout=PATIENCE)
    found = taken(processes)
    go_on.set()
    for process in processes:
        process.join(PATIENCE)
    return found


def taken(processes: list[Any]) -> int:
    assert all(process.is_alive() for process in processes)
    return proc.pss([os.getpid(), *(process.pid for process in processes)])


def of_loaderx(streams: MSDataset, count: int) -> int:
    options: dict[str, Any] = {"transform": transforms.plain, "ragged": "packed", "worker_type": "process"}
    with DataLoader(streams, count, BATCH, **options) as loader:
        for _ in loader.take(STEPS * count):
            pass
        pipeline: Any = loader._pipeline
        return taken([worker.process for worker in pipeline._workers])


def of_torch(records: DenseDataset, count: int) -> int:
    """A dataset of one record at a time. The sampler is one that makes no list of all records, which `shuffle=True` does."""
    from torch.utils import data

    source: Any = records
    drawn = data.RandomSampler(source, replacement=True, num_samples=2 * STEPS * count * BATCH)
    iterator: Any = iter(data.DataLoader(source, BATCH, sampler=drawn, num_workers=count))
    for _ in range(STEPS * count):
        next(iterator)
    return taken(iterator._workers)


def main(path: str, whose: str, count: int) -> None:
    with MSDataset(f"{path}/many", read_only=True) as many, DenseDataset(f"{path}/few", read_only=True) as few:
        with DataLoader(many, 2, BATCH, ragged="packed") as loader:
            for _ in loader.take(STEPS * count):
                pass
        if whose == "torch":
            dense: Any = many["dense"]
            of_torch(few, count)  # whatever it imports and keeps
            less, more = of_torch(few, count), of_torch(dense, count)
        else:
            less, more = beside_bare(count), of_loaderx(many, count)
        sys.stdout.write(f"{less} {more}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
