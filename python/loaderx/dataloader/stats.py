"""What a loader counts: where the time goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loaderx.dataloader.plan import Made


@dataclass(frozen=True)
class Stats:
    """Counts since the loader was made. Times are those of the batches that were delivered.

    A consumer that waits (`wait_seconds` grows about as fast as time) is starved by its workers: `gather_seconds` and
    `transform_seconds`, each summed over all threads or processes, say by which part. One that doesn't wait (`ready` is near
    `prefetch_size`) is the bottleneck itself.
    """

    batches: int
    """Batches that `next()` returned."""
    skipped: int
    """Steps that were passed over because making them raised (`on_error="skip"`)."""
    wait_seconds: float
    """How long `next()` waited for them, in all."""
    gather_seconds: float
    """How long drawing and reading them took."""
    transform_seconds: float
    """How long their transforms took."""
    ready: int
    """Batches that are ready now and not yet taken: the depth of the queue."""
    shared_bytes: int
    """Shared memory by which the worker processes that run hand over batches (`RssShmem` as far as it was used), once for all of them;
    0 with threads.
    What batches of threads take, and how much of the streams is mapped, tells `memory()` of the dataset."""


class Counts:
    """What a loader counts."""

    def __init__(self) -> None:
        self.batches = self.skipped = 0
        self.wait_seconds = self.gather_seconds = self.transform_seconds = 0.0

    def delivered(self, made: Made) -> Any:
        """The batch, counted."""
        self.batches += 1
        self.gather_seconds += made.gather_seconds
        self.transform_seconds += made.transform_seconds
        return made.batch

    def stats(self, ready: int, shared_bytes: int) -> Stats:
        """What was counted so far."""
        return Stats(
            self.batches,
            self.skipped,
            self.wait_seconds,
            self.gather_seconds,
            self.transform_seconds,
            ready,
            shared_bytes,
        )
