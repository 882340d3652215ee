"""Transforms on Python threads: they take steps in order, each the gathered batch of its step, and leave what they make for the consumer.

    tickets   consumer -> workers   the steps to make, in order; None: end

and what `waiting.py` has for the way back. A worker knows the pipeline, never the loader, so an abandoned loader is collected
and its finalizer stops the pipeline.
"""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue

from loaderx import _core
from loaderx.dataloader.pipeline import JOIN_SECONDS, Options, running
from loaderx.dataloader.plan import Made, Plan
from loaderx.dataloader.turns import Turns
from loaderx.dataloader.waiting import Waiting
from loaderx.dataloader.window import Window


class Threads(Waiting):
    """Batches of the steps from `first_step` on, made ahead by Python threads behind the native gather.

    At most `workers + ahead` steps are begun or done and not yet taken, and at most `workers` gathered ones wait for a thread.
    """

    def __init__(self, plan: Plan, first_step: int, options: Options) -> None:
        # Half of the memory is for what is gathered, half for what became of it.
        half = options.memory // 2
        super().__init__(first_step, Window(options, half, plan.expected_bytes))
        self.plan = plan
        self.tickets: SimpleQueue[int | None] = SimpleQueue()
        self.turns = Turns(options.workers)
        self._feed = _core.Pipeline(plan.gather, first_step, options.workers, options.workers, half)
        self._threads = [
            threading.Thread(target=work, args=(self, i), name=f"loaderx-{i}", daemon=True)
            for i in range(options.workers)
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

    def make(self, step: int) -> None:
        """For workers. Nothing of the step stays referenced by the thread afterwards."""
        gathered = self._feed.take(step, None)
        if gathered is not None:
            begun = self.turns.begun()
            try:
                made = self.plan.finish(gathered)
            finally:
                self.turns.done(begun)
            self.arrived(step, made)

    def stop(self) -> None:
        """Let the threads end once they are done with the step in hand. Does not wait, so it may be called from anywhere."""
        super().stop()
        self._feed.stop()
        self.turns.end()
        for _ in self._threads:
            self.tickets.put(None)

    def join(self, seconds: float = JOIN_SECONDS) -> None:
        """Wait for the threads to end, but no longer than this in all."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        self._feed.join(max(0.0, deadline - time.monotonic()))


def work(pipeline: Threads, worker: int) -> None:
    """The life of a worker thread."""
    while True:
        pipeline.turns.wait(worker)
        step = pipeline.tickets.get()
        if step is None or pipeline.stopped:
            return
        try:
            pipeline.make(step)
        except BaseException as error:
            # Memory ran out, the steps have ended, or a user's exception refuses to be handled: nobody shall wait for the step.
            pipeline.arrived(step, Made(None, error, of_step=False))
