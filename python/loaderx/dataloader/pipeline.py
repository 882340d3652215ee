"""What makes batches for a loader, whatever is behind it; and how all of it ends with the program."""

from __future__ import annotations

import atexit
import time
from typing import Literal, NamedTuple, Protocol
from weakref import WeakSet

from loaderx.dataloader.plan import Made

JOIN_SECONDS = 0.5
"""How long closing waits for threads: one that is stuck in a transform is left behind (it is a daemon)."""

WorkerType = Literal["thread", "process"]


class Options(NamedTuple):
    """How batches are made; none of it changes them."""

    workers: int
    ahead: int
    memory: int
    """Bytes of batches that are begun or ready."""
    worker_type: WorkerType
    start_method: str | None
    is_bound: bool = False
    """Whether that was asked for, and so holds for the first batches, too, whose size nobody knows."""


class PipelineStopped(Exception):  # noqa: N818 - it tells the consumer to end, it is no error
    """The pipeline was stopped while its consumer waited."""


class Pipeline(Protocol):
    """Batches of the steps from some first one on, made ahead. None of its methods but `join` blocks for long without being asked to."""

    def start(self) -> None:
        """Begin."""

    def wait(self, step: int, timeout: float | None) -> Made:
        """What came of `step`; it stays until `release`. PipelineStopped if it stops, TimeoutError after `timeout` seconds."""
        ...

    def wait_any(self, timeout: float | None) -> tuple[int, Made]:
        """The lowest step of which something came, and that; else the first that comes."""
        ...

    def release(self, step: int) -> None:
        """Forget what came of `step`, which the consumer has, and go on."""

    def stop(self) -> None:
        """End once the steps in hand are done. Does not wait, so it may be called from anywhere."""

    def join(self, seconds: float) -> None:
        """Wait for the end, but no longer than this in all."""

    @property
    def ready(self) -> int:
        """Batches that wait for the consumer."""
        ...

    @property
    def shared_bytes(self) -> int:
        """Shared memory by which worker processes hand batches over."""
        ...


running: WeakSet[Pipeline] = WeakSet()
"""What has to be stopped when the program ends."""


@atexit.register
def stop_all() -> None:
    """End everything while the interpreter is still whole: a thread that comes back from native code later would find none."""
    pipelines = list(running)
    for pipeline in pipelines:
        pipeline.stop()
    deadline = time.monotonic() + JOIN_SECONDS
    for pipeline in pipelines:
        pipeline.join(max(0.0, deadline - time.monotonic()))
