"""Transforms on Python threads: they take steps in order, each the gathered batch of its step, and leave what they make for the consumer.

What crosses between threads are two queues and a dict:

    tickets   consumer -> workers   the steps to make, in order; None: end
    results   workers -> consumer   step -> what came of it
    arrivals  workers -> consumer   a wake-up for each result

The queues are `SimpleQueue`s because their `put` is safe wherever Python may run code, a garbage collector's callback included: no lock
is ever held that a callback could wait for. A worker knows the pipeline, never the loader, so an abandoned loader is collected
and its finalizer stops the pipeline.
"""

from __future__ import annotations

import contextlib
import threading
import time
from queue import Empty, SimpleQueue

from loaderx import _core
from loaderx.dataloader.making import JOIN_SECONDS, Options, PipelineStopped, running
from loaderx.dataloader.plan import Made, Plan
from loaderx.dataloader.window import Window


class Threads:
    """Batches of the steps from `first_step` on, made ahead by Python threads behind the native gather.

    At most `workers + ahead` steps are begun or done and not yet taken, and at most `workers` gathered ones wait for a thread.
    """

    def __init__(self, plan: Plan, first_step: int, options: Options) -> None:
        self.plan = plan
        self.stopped = False
        self.tickets: SimpleQueue[int | None] = SimpleQueue()
        self.results: dict[int, Made] = {}
        self.arrivals: SimpleQueue[None] = SimpleQueue()
        self.window = Window(options.workers + options.ahead, options.memory)
        self._feed = _core.Pipeline(plan.gather, first_step, options.workers, options.workers, options.memory)
        self._first = self._issued = first_step
        self._threads = [
            threading.Thread(target=work, args=(self,), name=f"loaderx-{i}", daemon=True)
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

    def wait(self, step: int, timeout: float | None) -> Made:
        """What came of `step`; it stays until `release`. PipelineStopped if the pipeline stops, TimeoutError after `timeout` seconds."""
        return self._wait(step, timeout)[1]

    def wait_any(self, timeout: float | None) -> tuple[int, Made]:
        """The lowest step of which something came, and that; else the first that comes."""
        return self._wait(None, timeout)

    def _wait(self, step: int | None, timeout: float | None) -> tuple[int, Made]:
        # Ctrl-C may have come between a hand-over and its release.
        for left_over in [made for made in list(self.results) if step is not None and made < step]:
            self.release(left_over)
        self._issue()
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self._lowest() if step is None else step
            made = None if found is None else self.results.get(found)
            if found is not None and made is not None:
                return found, made
            if self.stopped:
                raise PipelineStopped
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                self.arrivals.get(timeout=left)
            except Empty:
                if self._lowest() is None if step is None else step not in self.results:
                    raise late(step, timeout) from None

    def _lowest(self) -> int | None:
        return min(list(self.results), default=None)

    def release(self, step: int) -> None:
        """Forget the result of `step`, which the consumer has, and let the workers go on."""
        if step in self.results:
            self._first += 1
            self.results.pop(step, None)
        # A result has one wake-up, and one that was there before it was waited for leaves its own behind.
        with contextlib.suppress(Empty):
            self.arrivals.get_nowait()
        self._issue()

    def _issue(self) -> None:
        """Let as many steps be made as the window has room for; `_first` counts from the first step those that are through."""
        while self._issued < self._first + self.window.size:
            self.tickets.put(self._issued)
            self._issued += 1

    def stop(self) -> None:
        """Let the threads end once they are done with the step in hand. Does not wait, so it may be called from anywhere."""
        self.stopped = True
        self.results.clear()
        self._feed.stop()
        for _ in self._threads:
            self.tickets.put(None)
        self.arrivals.put(None)

    def join(self, seconds: float = JOIN_SECONDS) -> None:
        """Wait for the threads to end, but no longer than this in all."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            if thread.ident is not None and thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))
        self._feed.join(max(0.0, deadline - time.monotonic()))

    @property
    def ready(self) -> int:
        """Batches that wait for the consumer."""
        return len(self.results)

    def gathered(self, step: int) -> _core.Made | None:
        """The gathered batch of a step; None once stopped."""
        return self._feed.take(step, None)


def late(step: int | None, timeout: float | None) -> TimeoutError:
    """The error of a consumer that waited long enough."""
    what = "no batch" if step is None else f"step {step}: no batch"
    return TimeoutError(f"{what} within {timeout} s")


def work(pipeline: Threads) -> None:
    """The life of a worker thread."""
    while (step := pipeline.tickets.get()) is not None and not pipeline.stopped:
        make(pipeline, step)


def make(pipeline: Threads, step: int) -> None:
    """Make one step; nothing of it stays referenced by the thread afterwards."""
    gathered = pipeline.gathered(step)
    if gathered is None:
        return
    made = pipeline.plan.finish(gathered)
    del gathered
    pipeline.window.saw(made.batch)
    if not pipeline.stopped:
        pipeline.results[step] = made
        pipeline.arrivals.put(None)
