"""The threads of a loader: they take steps in order, gather and transform their batches, and leave them for the consumer.

What crosses between threads are two queues and a dict:

    tickets   consumer -> workers   the steps to make, in order; None: end
    results   workers -> consumer   step -> what came of it
    arrivals  workers -> consumer   a wake-up for each result

The queues are `SimpleQueue`s because their `put` is safe wherever Python may run code, a garbage collector's callback included: no lock
is ever held that a callback could wait for. A worker knows the pipeline, never the loader, so an abandoned loader is collected
and its finalizer stops the pipeline. At exit of the interpreter all pipelines are stopped before it takes threads away.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from queue import Empty, SimpleQueue
from weakref import WeakSet

from loaderx.dataloader.plan import Made, Plan

JOIN_SECONDS = 0.5
"""How long closing waits for threads: one that is stuck in a transform is left behind (it is a daemon)."""


class PipelineStopped(Exception):  # noqa: N818 - it tells the consumer to end, it is no error
    """The pipeline was stopped while its consumer waited."""


class Pipeline:
    """Batches of the steps from `first_step` on, made ahead by `workers` threads.

    At most `workers + ahead` steps are begun or done and not yet taken.
    """

    def __init__(self, plan: Plan, first_step: int, workers: int, ahead: int) -> None:
        self.plan = plan
        self.stopped = False
        self.process = os.getpid()
        self.tickets: SimpleQueue[int | None] = SimpleQueue()
        self.results: dict[int, Made] = {}
        self.arrivals: SimpleQueue[None] = SimpleQueue()
        self._window = workers + ahead
        self._issued = first_step
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

    def wait(self, step: int, timeout: float | None) -> Made:
        """What came of `step`; it stays until `release`. PipelineStopped if the pipeline stops, TimeoutError after `timeout` seconds."""
        self._issue(step)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            made = self.results.get(step)
            if made is not None:
                return made
            if self.stopped:
                raise PipelineStopped
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                self.arrivals.get(timeout=left)
            except Empty:
                if step not in self.results:
                    raise TimeoutError(f"step {step}: no batch within {timeout} s") from None

    def release(self, step: int) -> None:
        """Forget the result of `step`, which the consumer has, and let the workers go on."""
        self.results.pop(step, None)
        # A result has one wake-up, and one that was there before it was waited for leaves its own behind.
        with contextlib.suppress(Empty):
            self.arrivals.get_nowait()
        self._issue(step + 1)

    def _issue(self, step: int) -> None:
        """Let steps be made up to the window that starts at `step`."""
        while self._issued < step + self._window:
            self.tickets.put(self._issued)
            self._issued += 1

    def stop(self) -> None:
        """Let the threads end once they are done with the step in hand. Does not wait, so it may be called from anywhere."""
        self.stopped = True
        self.results.clear()
        for _ in self._threads:
            self.tickets.put(None)
        self.arrivals.put(None)

    def join(self, seconds: float = JOIN_SECONDS) -> None:
        """Wait for the threads to end, but no longer than this in all."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))


def work(pipeline: Pipeline) -> None:
    """The life of a worker thread."""
    while (step := pipeline.tickets.get()) is not None and not pipeline.stopped:
        make(pipeline, step)


def make(pipeline: Pipeline, step: int) -> None:
    """Make one step; nothing of it stays referenced by the thread afterwards."""
    made = pipeline.plan.make(step)
    if not pipeline.stopped:
        pipeline.results[step] = made
        pipeline.arrivals.put(None)


running: WeakSet[Pipeline] = WeakSet()


@atexit.register
def stop_all() -> None:
    """End every thread while the interpreter is still whole: one that comes back from native code later would find none."""
    pipelines = list(running)
    for pipeline in pipelines:
        pipeline.stop()
    deadline = time.monotonic() + JOIN_SECONDS
    for pipeline in pipelines:
        pipeline.join(max(0.0, deadline - time.monotonic()))
