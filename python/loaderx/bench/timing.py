"""Times of a few actions side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles

ROUNDS = 5
MIB = 1 << 20


@dataclass(frozen=True)
class Figure:
    """Seconds a batch."""

    what: str
    batch: int
    """Records a batch; 0 where there are no batches."""
    batch_bytes: float
    rounds: list[float]
    """The median of each round."""

    @property
    def seconds(self) -> float:
        """The median of the rounds."""
        return median(self.rounds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The spread of the rounds."""
        low, _, high = quantiles(self.rounds, n=4, method="inclusive")
        return low, high

    @property
    def rate(self) -> float:
        """MiB/s."""
        return self.batch_bytes / MIB / self.seconds


def side_by_side(
    actions: Mapping[str, Callable[[], object]], batch: int, batch_bytes: float, seconds: float
) -> list[Figure]:
    """A figure an action. They take turns, so a machine that drifts is fair; all together take about `seconds`."""
    share = seconds / ROUNDS / len(actions)
    rounds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(ROUNDS):
        for name, action in actions.items():
            rounds[name].append(median(times(action, share)))
    return [Figure(name, batch, batch_bytes, rounds[name]) for name in actions]


def times(action: Callable[[], object], share: float) -> list[float]:
    """Seconds of each call, as many as fit in `share` seconds, at least one. What a call returns is dropped before the next."""
    found: list[float] = []
    end = time.perf_counter() + share
    while True:
        started = time.perf_counter()
        action()
        stopped = time.perf_counter()
        found.append(stopped - started)
        if stopped >= end:
            return found
