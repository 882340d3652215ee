"""How many transforms run at a time on threads.

Python code is often slower in several threads than in one: each array operation lets go of the interpreter's lock and has to wait until
it gets it back. Code that waits for something else, or works for long without the lock, is quicker in several. Which of them a
transform is shows only while it runs, so it is measured: fewer threads take steps where more is made that way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

GAIN = 1.1
"""Fewer threads must be so many times as fast as all: a tie leaves them as many as was asked for."""
TRIAL_SECONDS = 0.05
SETTLED = 250
"""Steps a thread after which it is tried anew: transforms change, and so does what else the machine does."""
PATIENCE = 1.0, 4.0
"""So many seconds without a step, and so many times as long as the longest step, until all threads take steps again: transforms may wait
for each other.
"""


class Trial:
    """What threads make in some time."""

    def __init__(self, begun: float) -> None:
        self._begun = self._now = begun
        self.steps = 0
        """Steps that were both begun and done in it."""
        self._seconds = 0.0
        self.busy = 0.0
        """Seconds in which at least one thread was at work."""
        self._active = 0.0

    def passed(self, now: float, active: int) -> None:
        """Until now so many threads were at work."""
        seconds, self._now = now - self._now, now
        self._active += active * seconds
        self.busy += seconds if active else 0.0

    def made(self, begun: float, done: float) -> None:
        """A step was made."""
        if begun >= self._begun:
            self.steps += 1
            self._seconds += done - begun

    @property
    def rate(self) -> float:
        """Steps a second: threads that were at work at a time, by the seconds that each took for a step.

        Steps by seconds would be far off, for threads often end at the same time, and one such moment more or less falls into a trial.
        """
        return self._active / self.busy / (self._seconds / self.steps) if self._seconds and self.busy else 0.0


class Turns:
    """The first `width` of the worker threads take steps, the others rest.

    A step is never held by a thread that rests, so steps are begun in their order whatever the width is. All threads are tried, then half
    as many each time, down to one; then those that made most go on.
    """

    def __init__(self, workers: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.width = workers
        self._workers = workers
        self._clock = clock
        self._lock = threading.Lock()
        self._wakes: list[SimpleQueue[None]] = [SimpleQueue() for _ in range(workers)]
        self._ended = False
        self._active = self._made = 0
        # Until they were woken, steps may have waited for one another, which says nothing of their length.
        self._longest, self._woken = 0.0, clock()
        # Of this width: steps before its trial begins.
        self._skipped, self._trial = workers, Trial(clock())
        # What the widths that were tried made in a second.
        self._rates: dict[int, float] = {}
        self._settled = False
        # Steps a thread until the next trials.
        self._pause = SETTLED

    def wait(self, worker: int) -> None:
        """Until it is the turn of this worker, from 0 on, or the end."""
        while worker >= self.width and not self._ended:
            made = self._made
            try:
                self._wakes[worker].get(timeout=max(PATIENCE[0], PATIENCE[1] * self._longest))
            except Empty:
                self._wake_all(worker, made)

    def _wake_all(self, worker: int, made: int) -> None:
        """Let all threads take steps, where this one rested for long and nothing was made: those at work may wait for each other, and would
        do so for ever. If they do that time after time, trials become rare; if it was one long step, the next ones are as ever.
        """
        with self._lock:
            if not self._active or self._made != made or worker < self.width:
                return
            self._settled = True
            self._pause *= 2
            self._woken = self._clock()
            self._set(self._workers)

    def begun(self) -> float:
        """A step was begun: at which time `done` wants to know."""
        with self._lock:
            now = self._clock()
            self._trial.passed(now, self._active)
            self._active += 1
            return now

    def done(self, begun: float) -> None:
        """A step was made."""
        with self._lock:
            now = self._clock()
            self._trial.passed(now, self._active)
            self._active -= 1
            self._made += 1
            self._longest = max(self._longest, now - max(begun, self._woken))
            if self._skipped > 0:
                # Until those that are to rest do, and the others have all begun.
                self._skipped -= self._active < self.width
                self._trial = Trial(now)
                return
            self._trial.made(begun, now)
            if not self._settled:
                self._judge()
            elif self._trial.steps >= self._pause * self._workers:
                self._rates.clear()
                self._settled = False
                self._set(self._workers)

    def end(self) -> None:
        """Let all go on, to their end. Takes no lock, so it may be called from anywhere."""
        self._ended = True
        for wake in self._wakes:
            wake.put(None)

    def _judge(self) -> None:
        """Is the trial of this width over, and then what?"""
        trial = self._trial
        hopeless = trial.steps > 0 and trial.rate < max(self._rates.values(), default=0.0) / 2
        if trial.busy < TRIAL_SECONDS or (trial.steps <= 2 * self.width and not hopeless):
            return
        self._rates[self.width] = trial.rate
        if self.width > 1:
            self._set(self.width // 2)
            return
        self._settled, self._pause = True, SETTLED
        best = max(self._rates, key=lambda width: self._rates[width])
        self._set(best if self._rates[best] > GAIN * self._rates[self._workers] else self._workers)

    def _set(self, width: int) -> None:
        """Let so many threads take steps, and count anew."""
        self._skipped = width
        rested, self.width = self._wakes[self.width : width], width
        for wake in rested:
            wake.put(None)
