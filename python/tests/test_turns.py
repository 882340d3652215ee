"""How many transforms run at a time on threads: as many as pay off, and never so few that one waits for another for ever."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataloader import DataLoader
from loaderx.dataloader import turns as module
from loaderx.dataloader.turns import PATIENCE, SETTLED, Turns
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy
from support import GENEROUS, soon

STEP = 1.0


class Machine:
    """Threads in a time of their own: `speed(n)` is how many steps a second n of them make together."""

    def __init__(self, workers: int, speed: Callable[[int], float]) -> None:
        self.now, self.speed, self.made, self.stalls = 0.0, speed, 0, 0
        self.turns = Turns(workers, clock=lambda: self.now)
        self.left: list[tuple[float, float]] = []
        self.widths: Counter[int] = Counter()

    def begin(self, width: int) -> None:
        """Let so many threads have a step."""
        while len(self.left) < width:
            # Threads don't end all at once.
            work = STEP * (0.8, 1.0, 1.2)[(self.made + len(self.left)) % 3]
            self.left.append((work, self.turns.begun()))

    def rest(self, seconds: float) -> None:
        """Nothing is made for so long, which the first thread that rests sees."""
        made = self.turns._made
        self.now += seconds
        self.turns._wake_all(self.turns.width, made)

    def run(self, steps: int, at_most: int | None = None, at_least: int = 0) -> float:
        """Make so many steps, of which no more than `at_most` are there to be begun at a time, and none of which is made before `at_least`
        are. The seconds that it took.
        """
        started = self.now
        for _ in range(steps):
            self.begin(self.turns.width if at_most is None else min(at_most, self.turns.width))
            if len(self.left) < at_least:
                self.stalls += 1
                self.rest(20 * PATIENCE[0])
                self.begin(self.turns.width)
            each = self.speed(len(self.left)) / len(self.left)
            first, begun = min(self.left)
            self.now += first / each
            self.left.remove((first, begun))
            self.left = [(work - first, at) for work, at in self.left]
            self.widths[self.turns.width] += 1
            self.made += 1
            self.turns.done(begun)
        return self.now - started


SPEEDS: dict[str, tuple[Callable[[int], float], int]] = {
    "one at a time": (lambda n: 10 / (1 + 0.3 * (n > 1)), 1),
    "the more the worse": (lambda n: 10 / n**0.5, 1),
    "two at a time": (lambda n: 10.0 * min(n, 2) / max(1.0, n / 2) ** 0.5, 2),
    "all at once": (lambda n: 10.0 * n, 16),
    "all alike": (lambda n: 10.0, 16),
}
"""How many steps a second threads make together, and how many of up to sixteen make most."""


@pytest.mark.parametrize("workers", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("name", SPEEDS)
def test_as_many_take_steps_as_pay_off(name: str, workers: int) -> None:
    speed, best = SPEEDS[name]
    best = min(best, workers)
    machine = Machine(workers, speed)
    steps = 3 * SETTLED * workers
    seconds = machine.run(steps)
    assert machine.widths.most_common(1)[0][0] == best
    # All widths were tried, anew from time to time, which cost little.
    assert set(machine.widths) == {workers >> shift for shift in range(workers.bit_length())}
    assert machine.widths[best] > 0.9 * steps
    assert seconds < 1.1 * STEP * steps / speed(best)


@pytest.mark.parametrize("name", SPEEDS)
def test_a_consumer_that_is_slow_leaves_them_as_many_as_was_asked_for(name: str) -> None:
    machine = Machine(4, SPEEDS[name][0])
    machine.run(1000, at_most=1)
    assert machine.turns.width == 4


def test_a_transform_that_changes_is_tried_anew() -> None:
    machine = Machine(4, SPEEDS["one at a time"][0])
    machine.run(200)
    assert machine.turns.width == 1
    machine.speed = SPEEDS["all at once"][0]
    machine.run(SETTLED * 4 + 200)
    assert machine.turns.width == 4


def test_a_step_that_takes_long_is_no_reason_for_good() -> None:
    """All threads take steps again then, but which number pays off is found out anew, and what is long is learnt."""
    machine = Machine(4, SPEEDS["one at a time"][0])
    machine.run(200)
    assert machine.turns.width == 1
    machine.begin(1)
    machine.rest(10)
    assert machine.turns.width == 4
    machine.now += 10
    machine.run(8)
    assert machine.turns._longest >= 10
    machine.run(2 * SETTLED * 4 + 200)
    assert machine.turns.width == 1
    machine.widths.clear()
    machine.run(10 * SETTLED)
    assert set(machine.widths) == {1, 2, 4}  # trials come as often as ever


def test_nobody_wakes_threads_for_no_reason() -> None:
    machine = Machine(4, SPEEDS["one at a time"][0])
    machine.run(200)
    machine.rest(10)
    assert machine.turns.width == 1  # there is nothing to do
    machine.begin(1)
    machine.turns._wake_all(1, machine.turns._made - 1)
    assert machine.turns.width == 1  # one was made meanwhile
    machine.turns._wake_all(0, machine.turns._made)
    assert machine.turns.width == 1  # it doesn't rest


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_transforms_that_wait_for_each_other_are_tried_less_and_less(workers: int) -> None:
    machine = Machine(workers, SPEEDS["one at a time"][0])
    machine.run(32 * SETTLED * workers, at_least=2)
    assert 2 <= machine.stalls <= 6
    assert machine.turns._longest < 10 * STEP  # none of the waiting counts
    assert machine.turns.width >= 2


def test_transforms_that_wait_for_each_other_are_let(tmp_path: Path) -> None:
    from_numpy(tmp_path / "ds", np.arange(100))
    barrier = threading.Barrier(2, timeout=60)

    def transform(batch: dict[str, Any]) -> int:
        time.sleep(0.01)
        return barrier.wait()

    # Whether one was tried shows in that there was nobody to wait for.
    with (
        DenseDataset(tmp_path / "ds") as ds,
        DataLoader({"x": ds}, batch_size=5, num_workers=2, transform=transform) as loader,
    ):
        got = list(itertools.islice(loader, 60))
    assert Counter(got) == {0: 30, 1: 30}


def test_the_end_does_not_wait_for_those_that_rest() -> None:
    turns = Turns(3)
    turns.width = 1
    resting = [threading.Thread(target=turns.wait, args=(worker,)) for worker in range(3)]
    for thread in resting:
        thread.start()
    resting[0].join(60)
    assert all(thread.is_alive() for thread in resting[1:])
    turns.end()
    for thread in resting:
        thread.join(60)
        assert not thread.is_alive()


def test_python_code_is_made_by_one_thread_in_the_end_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that is busy a trial may err; then another one comes soon."""
    monkeypatch.setattr(module, "SETTLED", 25)
    from_numpy(tmp_path / "ds", np.arange(1000))
    at_work: list[int] = []

    def transform(batch: dict[str, Any]) -> tuple[str, int]:
        at_work.append(1)
        # As under a lock that passes from one to the other slowly.
        time.sleep(0.004 * len(at_work) ** 2)
        at_work.pop()
        return threading.current_thread().name, int(batch["x"][0])

    names: list[str] = []
    values: list[int] = []

    def is_settled() -> bool:
        name, value = next(loader)
        names.append(name)
        values.append(value)
        return len(set(names)) > 1 and set(names[-50:]) == {"loaderx-0"}

    with DenseDataset(tmp_path / "ds") as ds:
        with DataLoader({"x": ds}, batch_size=1, num_workers=4, transform=transform, timeout=GENEROUS) as loader:
            assert soon(is_settled, 2 * GENEROUS)
        with DataLoader({"x": ds}, batch_size=1) as plain:
            assert values == [int(batch["x"][0]) for batch in itertools.islice(plain, len(values))]
