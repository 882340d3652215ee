"""The line that tells how far it is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TypeAlias, TypeVar

Progress: TypeAlias = Callable[[int, int], object]
"""Is told how many records are done, and of how many."""
OpenProgress: TypeAlias = Callable[[int, "int | None"], object]
"""The same, where perhaps only reading everything tells of how many: None until then."""
Told = TypeVar("Told", Progress, OpenProgress)

PHASES = ("writing", "comparing")
"""What is done with each record of a store that is written."""

MIN_SECONDS = 3.0
"""From when on the time that is left is guessed."""
CLEAR = "\x1b[K"
"""Clears what an earlier, longer line left."""


@contextmanager
def telling(progress: Told | bool | None, phases: Sequence[str] = PHASES) -> Iterator[Told | None]:
    """What an argument `progress` asks to be told: itself, nobody for None or False, and for True a line of our own.

    That ends when this does, also where the work fails. Enter it before anything is written.

    Raises:
        TypeError: what can't be called.
    """
    if progress is None or progress is False:
        yield None
    elif progress is True:
        line = ProgressLine(phases)
        try:
            yield line
        finally:
            line.end()
    elif callable(progress):
        yield progress
    else:
        raise TypeError(f"progress: expected a function of (done, total), True or None, found {progress!r}")


class ProgressLine:
    """A line that is written over, or a line for each tenth where the output is no terminal.

    Where nobody knows how many records there are, it tells how many are done; on no terminal, each time that these are twice as many.

    `phases`: what is done with each record, in this order; each counts once.
    """

    def __init__(self, phases: Sequence[str] = PHASES) -> None:
        self.phases = phases
        self._shown = -1
        self._open = False
        self._next = 0
        self._start = monotonic()

    def __call__(self, done: int, total: int | None) -> None:
        """Tell it, if there is something new to tell."""
        if total is None:
            self._count(done)
            return
        terminal = sys.stderr.isatty()
        percent = 100 * done // total if total else 100
        if not terminal:
            percent -= percent % 10
        if percent == self._shown:
            return
        if percent < self._shown:
            self._start = monotonic()  # another store begins
        self._shown = percent
        line = f"{self._phase(done, total)}: {percent:3} %"
        if terminal:
            line = f"\r{line}{self._details(done, total)}{CLEAR}"
        self._open = terminal and done < total
        print(line, file=sys.stderr, end="" if self._open else "\n", flush=True)

    def _count(self, done: int) -> None:
        """How many, where it isn't known of how many."""
        text = f"{self.phases[0]}: {done:,} records"
        if sys.stderr.isatty():
            rate = done / max(monotonic() - self._start, 1e-3)
            print(f"\r{text}, {rate:,.0f} a second{CLEAR}", file=sys.stderr, end="", flush=True)
            self._open = True
        elif done >= self._next:
            self._next = done + max(1000, done)
            print(text, file=sys.stderr, flush=True)

    def _phase(self, done: int, total: int) -> str:
        """What is being done; what comes last when all is."""
        each = max(1, total // len(self.phases))
        return self.phases[min(done // each, len(self.phases) - 1)]

    def _details(self, done: int, total: int) -> str:
        """Records of this phase, and the time that is left."""
        each = total // len(self.phases)
        if not each:
            return ""
        seconds = monotonic() - self._start
        text = f"  {done - each * min(done // each, len(self.phases) - 1):,} of {each:,} records"
        if done == total:
            return f"{text}, {duration(seconds)}"
        if done and seconds > MIN_SECONDS:
            text += f", {duration(seconds * (total - done) / done)} left"
        return text

    def end(self) -> None:
        """Let what comes next, such as an error, begin on a line of its own."""
        if self._open:
            print(file=sys.stderr)
        self._open = False


def duration(seconds: float) -> str:
    """Seconds as `m:ss` or `h:mm:ss`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
