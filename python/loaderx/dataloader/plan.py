"""What to make of a step: which records, of which streams, and what of them. It pickles, so that worker processes have it too."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from loaderx.arguments import add_note

Indices = npt.NDArray[np.uint64]


class Stream(Protocol):
    """What a loader reads: a dataset, or anything with a length that returns record sets."""

    def __len__(self) -> int: ...
    def __getitems__(self, index: Indices, /) -> Any: ...


class Draws(Protocol):
    """Which records a step reads."""

    def batch_at(self, step: int) -> Indices:
        """The records of `step`, in the order of the batch."""
        ...


class Made(NamedTuple):
    """What came of a step: a batch, or the error that came instead; and how long it took."""

    batch: Any
    error: BaseException | None
    gather_seconds: float = 0.0
    transform_seconds: float = 0.0


class Plan(NamedTuple):
    """What to make of a step."""

    streams: Mapping[str, Stream]
    draws: Draws
    transform: Callable[[dict[str, Any]], Any]

    def make(self, step: int) -> Made:
        """What comes of `step`. Raises nothing: whatever it is, it is the consumer's."""
        started = time.perf_counter()
        gathered = started
        try:
            indices = self.draws.batch_at(step)
            batch = {name: stream.__getitems__(indices) for name, stream in self.streams.items()}
            gathered = time.perf_counter()
            made = self.transform(batch)
        except BaseException as error:
            add_note(error, f"at step {step} of the DataLoader")
            return Made(None, error)
        return Made(made, None, gathered - started, time.perf_counter() - gathered)
