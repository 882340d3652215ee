"""The consumer's side of steps that others make: it waits for them, takes them, and so lets more be begun.

What crosses between threads are a dict and a queue:

    results    makers -> consumer   step -> what came of it
    arrivals   makers -> consumer   a wake-up for each result

The queue is a `SimpleQueue` because its `put` is safe wherever Python may run code, a garbage collector's callback included: no lock
is ever held that a callback could wait for.
"""

from __future__ import annotations

import contextlib
import os
import time
from abc import ABC, abstractmethod
from queue import Empty, SimpleQueue

from loaderx.dataloader.errors import BatchTimeoutError
from loaderx.dataloader.pipeline import PipelineStopped
from loaderx.dataloader.plan import Made
from loaderx.dataloader.window import Window


class Waiting(ABC):
    """Steps from `first_step` on, of which at most so many are begun or done and not yet taken as the window allows.

    One consumer waits at a time.
    """

    def __init__(self, first_step: int, window: Window) -> None:
        self.stopped = False
        self.process = os.getpid()
        self.results: dict[int, Made] = {}
        self.arrivals: SimpleQueue[None] = SimpleQueue()
        self.window = window
        self._issued = first_step
        # Released were all steps below `_low`, and those of `_above` that follow it.
        self._low = first_step
        self._above: set[int] = set()
        # Those of them that nothing came of yet: they are being made, and what is being made counts.
        self._missing: set[int] = set()

    @abstractmethod
    def begin(self, step: int) -> None:
        """Let `step` be made."""

    def lost(self, step: int) -> Made | None:
        """What comes of a step that nobody makes any longer. Asked before the results are looked at."""
        return None

    def first_lost(self) -> int | None:
        """The lowest step that was begun and that nobody makes any longer."""
        return None

    def wait(self, step: int, timeout: float | None) -> Made:
        """What came of `step`; it stays until `release`. For consumers that have all steps before it.

        Raises:
            PipelineStopped: the pipeline stops, or did.
            BatchTimeoutError: nothing came within `timeout` seconds.
        """
        # An interrupt may have kept the consumer from releasing the one before.
        for left_over in range(self._low, step):
            self.release(left_over)
        deadline = deadline_in(timeout)
        while True:
            self._drop_late()
            lost = self.lost(step)
            made = self.results.get(step, lost)
            if made is not None:
                return made
            if not self._arrival(deadline) and step not in self.results:
                raise BatchTimeoutError(f"step {step}: no batch within {timeout} s")

    def wait_any(self, timeout: float | None) -> tuple[int, Made]:
        """A step and what came of it: the lowest that is ready, or else the first that comes. For consumers that take them in any order.

        Raises as `wait` does.
        """
        deadline = deadline_in(timeout)
        while True:
            self._drop_late()
            lost = self.first_lost()
            ready = self.results.copy()
            if ready:
                step = min(ready)
                return step, ready[step]
            if lost is not None and (made := self.lost(lost)) is not None:
                return lost, made
            if not self._arrival(deadline) and not self.results:
                raise BatchTimeoutError(f"from step {self._low} on: no batch within {timeout} s")

    def _arrival(self, deadline: float | None) -> bool:
        """Wait until something may have changed. False if the time is over before."""
        if self.stopped:
            raise PipelineStopped
        try:
            self.arrivals.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
        except Empty:
            return False
        return True

    def release(self, step: int) -> None:
        """Forget the result of `step`, which the consumer has, and let another be begun. Twice does no harm."""
        came = self.results.pop(step, None) is not None
        if not self._is_released(step):
            self._above.add(step)
            if not came:
                self._missing.add(step)
        while self._low in self._above:
            self._low += 1
            self._above.discard(self._low - 1)
        # A result has one wake-up, and one that was there before it was waited for leaves its own behind.
        with contextlib.suppress(Empty):
            self.arrivals.get_nowait()
        self._issue()

    def _is_released(self, step: int) -> bool:
        return step < self._low or step in self._above

    def _drop_late(self) -> None:
        """Forget what came of steps after they were released, and let others be begun for them."""
        for step in list(self.results):
            if self._is_released(step):
                self.results.pop(step, None)
                self._missing.discard(step)
        # Nothing comes of what nobody makes any longer.
        self._missing -= {step for step in self._missing if self.lost(step) is not None}
        self._issue()

    @property
    def _outstanding(self) -> int:
        """Steps that were begun and are not both there and released."""
        return self._issued - self._low - len(self._above) + len(self._missing)

    def _issue(self) -> None:
        """Let as many steps be made as may be."""
        while self._outstanding < self.window.size and not self.stopped:
            self.begin(self._issued)
            self._issued += 1

    def arrived(self, step: int, made: Made) -> None:
        """For makers: what came of a step."""
        if made.error is None:
            self.window.saw(made.batch)
        if not self.stopped:
            self.results[step] = made
            self.arrivals.put(None)

    def stop(self) -> None:
        """Wake the consumer, and let it end. Does not wait, so it may be called from anywhere."""
        self.stopped = True
        self.results.clear()
        self.arrivals.put(None)

    @property
    def ready(self) -> int:
        """Batches that wait for the consumer."""
        return len(self.results)

    @property
    def shared_bytes(self) -> int:
        """Nothing is handed over between processes."""
        return 0


def deadline_in(timeout: float | None) -> float | None:
    """When the time is over."""
    return None if timeout is None else time.monotonic() + timeout
