"""The threads of a loader: they take steps in order, gather and transform their batches, and leave them for the consumer.

    tickets   consumer -> workers   the steps to make, in order; None: end

and what `waiting.py` has for the way back. A worker knows the pipeline, never the loader, so an abandoned loader is collected
and its finalizer stops the pipeline. At exit of the interpreter all pipelines are stopped before it takes threads away.
"""

from __future__ import annotations

import atexit
import threading
import time
from queue import SimpleQueue
from typing import Protocol
from weakref import WeakSet

from loaderx.dataloader.plan import Plan
from loaderx.dataloader.waiting import PipelineStopped, Waiting

__all__ = ["JOIN_SECONDS", "Pipeline", "PipelineStopped"]

JOIN_SECONDS = 0.5
"""How long closing waits for threads: one that is stuck in a transform is left behind (it is a daemon)."""


class Pipeline(Waiting):
    """Batches of the steps from `first_step` on, made ahead by `workers` threads.

    At most `workers + ahead` steps are begun or done and not yet taken.
    """

    def __init__(self, plan: Plan, first_step: int, workers: int, ahead: int) -> None:
        super().__init__(first_step, workers + ahead)
        self.plan = plan
        self.tickets: SimpleQueue[int | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=work, args=(self,), name=f"loaderx-{i}", daemon=True) for i in range(workers)
        ]

    def start(self) -> None:
        """Start the threads."""
        running.add(self)
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:
            self.stop()
            raise

    def begin(self, step: int) -> None:
        """Hand out a ticket."""
        self.tickets.put(step)

    def stop(self) -> None:
        """Let the threads end once they are done with the step in hand. Does not wait, so it may be called from anywhere."""
        super().stop()
        for _ in self._threads:
            self.tickets.put(None)

    def join(self, seconds: float = JOIN_SECONDS) -> None:
        """Wait for the threads to end, but no longer than this in all."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))


def work(pipeline: Pipeline) -> None:
    """The life of a worker thread. Nothing of a step stays referenced by it afterwards."""
    while (step := pipeline.tickets.get()) is not None and not pipeline.stopped:
        pipeline.arrived(step, pipeline.plan.make(step))


class Ending(Protocol):
    """What is stopped at the end of the program."""

    def stop(self) -> None: ...
    def join(self, seconds: float) -> None: ...


running: WeakSet[Ending] = WeakSet()


@atexit.register
def stop_all() -> None:
    """End every thread while the interpreter is still whole: one that comes back from native code later would find none."""
    pipelines = list(running)
    for pipeline in pipelines:
        pipeline.stop()
    deadline = time.monotonic() + JOIN_SECONDS
    for pipeline in pipelines:
        pipeline.join(max(0.0, deadline - time.monotonic()))
