"""The loader layer: two aligned streams, the second of which numbers the records of the first."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import truth


class LoaderWorker:
    def __init__(self, engine: Any, start: dict[str, Any]) -> None:
        self.engine, self.codec, self.opening = engine, start["codec"], start["opening"]
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
            self.truth.check(label, data)

    def measure(self, batches: int, warm: int) -> float:
        """Seconds a batch, after `warm` of them: what was made ahead between two turns is not counted."""
        for _ in range(warm):
            next(self.loader)
        started = time.perf_counter()
        for _ in range(batches):
            next(self.loader)
        return (time.perf_counter() - started) / batches

    def close(self) -> None:
        if self.loader is not None:
            self.engine.close(self.loader)
            self.loader = None
