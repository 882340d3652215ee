"""The loader layer: two aligned streams, the second of which numbers the records of the first."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import truth
from augment import augment

from workers.memory import Peak, anonymous

MEMORY_SECONDS = 2.0
MEMORY_BATCHES = 200


class LoaderWorker:
    def __init__(self, engine: Any, start: dict[str, Any]) -> None:
        self.engine, self.codec, self.opening = engine, start["codec"], dict(start["opening"])
        self.augments = self.opening.pop("augment", False)
        if self.augments:
            self.opening["transform"] = augment
        self.path = Path(start["path"])
        self.truth = truth.load(Path(start["truth"]))
        self.loader: Any = None

    def write(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self.engine.write(self.path, self.truth.records, np.arange(len(self.truth)), self.codec)

    def open(self, batch: int) -> None:
        self.loader = self.engine.open_loader(self.path, batch, **self.opening)

    def check(self, batch: int, batches: int) -> None:
        """The labels say which records a batch must hold."""
        for _ in range(batches):
            data, label = self.engine.arrays(next(self.loader))
            if len(label) != batch:
                raise ValueError(f"a batch of {len(label)} records, not {batch}")
            if not self.augments:
                self.truth.check(label, data)
            elif not np.array_equal(data, augment({"data": self.truth.records[label], "label": label})["data"]):
                raise ValueError(f"a wrong answer for records {label[0]}, {label[1:2]}, ...")

    def first(self, batch: int) -> float:
        """Seconds until a loader has opened its streams and given its first batch."""
        started = time.perf_counter()
        loader = self.engine.open_loader(self.path, batch, **self.opening)
        next(loader)
        seconds = time.perf_counter() - started
        self.engine.close(loader)
        return seconds

    def measure(self, batches: int, warm: int) -> float:
        """Seconds a batch, after `warm` of them: what was made ahead between two turns is not counted."""
        for _ in range(warm):
            next(self.loader)
        started = time.perf_counter()
        for _ in range(batches):
            next(self.loader)
        return (time.perf_counter() - started) / batches

    def memory(self, batch: int) -> dict[str, int]:
        """Anonymous memory of this process at the most while it takes batches, each dropped when the next is there, beyond what there
        was before opening.
        """
        before = anonymous()
        peak = Peak()
        self.open(batch)
        started, taken = time.perf_counter(), None
        for _ in range(MEMORY_BATCHES):
            taken = next(self.loader)
            peak.look()
            if time.perf_counter() - started > MEMORY_SECONDS:
                break
        del taken
        return {"peak_bytes": peak.stop() - before}

    def close(self) -> None:
        if self.loader is not None:
            self.engine.close(self.loader)
            self.loader = None
