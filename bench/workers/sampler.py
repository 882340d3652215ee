"""The sampler layer: index batches, each a fresh array."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

SEED = 42


class SamplerWorker:
    def __init__(self, engine: Any, start: dict[str, Any]) -> None:
        self.engine = engine
        self.draw: Any = None

    def modes(self) -> list[str]:
        return list(self.engine.MODES)

    def open(self, mode: str, length: int, batch: int) -> None:
        self.draw = self.engine.make(mode, length, batch, SEED)

    def check(self, mode: str, length: int, batch: int, batches: int) -> None:
        drawn = [self.draw() for _ in range(batches)]
        for indices in drawn:
            if indices.shape != (batch,) or indices.min() < 0 or indices.max() >= length:
                raise ValueError(f"{mode}: a batch that does not fit: {indices[:3]}...")
        if mode == "sequential" and not np.array_equal(np.concatenate(drawn), np.arange(batch * batches) % length):
            raise ValueError("sequential: not in order")
        if mode == "cyclic" and any(len(np.unique(indices)) != batch for indices in drawn):
            raise ValueError("cyclic: a repeat within a batch")
        if len(drawn) > 1 and mode != "sequential" and np.array_equal(drawn[0], drawn[1]):
            raise ValueError(f"{mode}: a batch twice in a row")

    def measure(self, batches: int) -> float:
        """Seconds a batch over a loop of many draws."""
        draw = self.draw
        started = time.perf_counter()
        for _ in range(batches):
            draw()
        return (time.perf_counter() - started) / batches

    def close(self) -> None:
        self.draw = None
