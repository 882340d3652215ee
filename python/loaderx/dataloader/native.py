"""Batches that need no Python until they are handed over: the identity transform over stores."""

from __future__ import annotations

from loaderx import _core
from loaderx.dataloader.errors import BatchTimeoutError
from loaderx.dataloader.pipeline import Options, PipelineStopped, running
from loaderx.dataloader.plan import Made, Plan


class Native:
    """The native pipeline (`crates/zloader`): batches are drawn, gathered and kept in order by threads that never touch the interpreter.

    At most `ahead` batches are begun or ready at a time.
    """

    def __init__(self, plan: Plan, first_step: int, options: Options) -> None:
        self._plan = plan
        self._next = first_step
        self._core = _core.Pipeline(plan.gather, first_step, options.workers, options.ahead, options.memory)

    def start(self) -> None:
        """Nothing to do: the threads are at work already."""
        running.add(self)

    def wait(self, step: int, timeout: float | None) -> Made:
        """What came of `step`, which is handed over once. For consumers that have all steps before it.

        Raises:
            PipelineStopped: the pipeline stops, or did.
            BatchTimeoutError: nothing came within `timeout` seconds.
        """
        if step != self._next:
            self._core.forget(step)
        made = self._taken(step, timeout)[1]
        self._next = step + 1
        return made

    def wait_any(self, timeout: float | None) -> tuple[int, Made]:
        """The lowest step of which something came, and that; else the first that comes. Raises as `wait` does."""
        return self._taken(None, timeout)

    def _taken(self, step: int | None, timeout: float | None) -> tuple[int, Made]:
        try:
            gathered = self._core.take(step, timeout)
        except TimeoutError as error:
            raise BatchTimeoutError(str(error)) from None
        if gathered is None:
            raise PipelineStopped
        return gathered.step, self._plan.hand_over(gathered)

    def release(self, step: int) -> None:
        """Nothing to do: it was handed over."""

    def stop(self) -> None:
        """Let the threads end once they are done with the step in hand. Does not wait."""
        self._core.stop()

    def join(self, seconds: float) -> None:
        """Wait for the threads to end, but no longer than this in all."""
        self._core.join(seconds)

    @property
    def ready(self) -> int:
        """Batches that wait for the consumer."""
        return self._core.ready

    @property
    def shared_bytes(self) -> int:
        """Nothing is handed over between processes."""
        return 0
