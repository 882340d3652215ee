"""Writers that are killed at any moment: what they did stays done, what they were at is done or not, and nobody waits.

`KILLS` is the number of kills (`make test-killed`: 300). A store goes through all kills of its test, so damage would add up.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from loaderx.zrecord import ZrecordError
from support import CODECS
from twin import Kind, create, dataset, files_are_exact, identities_of, operations
from workers import follow, work

KILLS = int(os.environ.get("KILLS", "40"))
STORES: list[tuple[Kind, str]] = [(kind, codec) for kind in ("dense", "ragged") for codec in CODECS]
PATIENCE = 60
"""Seconds for what takes a moment: beyond it, something hangs."""

usual_seconds: dict[str, float] = {}
"""How long each operation took when it was last let finish: within that time the next one is killed."""

Result = TypeVar("Result")
logger = logging.getLogger(__name__)

pytestmark = pytest.mark.timeout(120 + 2 * KILLS)


def within(seconds: float, work: Callable[[], Result]) -> Result:
    """What `work` returns. TimeoutError if it takes too long, also where native code does not come back."""
    outcome: list[Result] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failure:
        raise failure[0]
    if not outcome:
        raise TimeoutError(f"not done within {seconds} s")
    return outcome[0]


class Victim:
    """A process that writes and is to be killed, and what is known of it.

    `before` is what the store held when the last operation began, `after` what it holds once that is done.
    """

    def __init__(self, processes: Any, path: Path, kind: Kind, state: list[int], seed: int, alone: bool = True) -> None:
        self.before = self.after = state
        self.operations = 0
        self.name = "nothing"
        fresh = (seed + 1) << 16
        self._plan = operations(state, fresh, seed, alone=alone)
        self._begun = 0.0
        self._log, log = processes.Pipe(duplex=False)
        self._process = processes.Process(target=work, args=(path, kind, state, fresh, seed, alone, log), daemon=True)
        self._process.start()
        log.close()
        self._kill_at_random(random.Random(seed))

    def _kill_at_random(self, rng: random.Random) -> None:
        """Within the n-th operation of a certain name, or after some time."""
        target = rng.choice([*["append", "delete", "compact"] * 2, "sync", "any"])
        begins = rng.randint(1, 3)
        deadline = time.monotonic() + (rng.random() * 0.3 if target == "any" else PATIENCE)
        try:
            while begins and self._log.poll(max(0.0, deadline - time.monotonic())):
                begins -= self._hear() and self.name == target
            assert not begins or target == "any", "the writer hangs"
            if not begins:
                time.sleep(usual_seconds.get(target, 0.001) * rng.uniform(0, 1.2))
        finally:
            self._process.kill()
            self._process.join(PATIENCE)
        assert self._process.exitcode == -signal.SIGKILL
        with contextlib.suppress(EOFError):
            while True:
                self._hear()
        self._log.close()

    def _hear(self) -> bool:
        """The writer's next word; whether it is that an operation begins."""
        begins = bool(self._log.recv_bytes() == b"begin")
        if begins:
            operation = next(self._plan)
            self.name, self.after = operation.name, operation.after
            self.operations += 1
            self._begun = time.monotonic()
        else:
            usual_seconds[self.name] = time.monotonic() - self._begun
            self.before = self.after
            self.name = "nothing"
        return begins


def reopened(path: Path, kind: Kind, victim: Victim, read_only_first: bool) -> list[int]:
    """What a store holds after a kill. It must be there at once, for readers and for a writer."""
    seen = read_only(path, kind) if read_only_first else None
    with dataset(path, kind) as ds:
        found = identities_of(kind, ds[:])
        assert ds._store.begin_write() == len(found)
        assert identities_of(kind, ds[:]) == found
        files_are_exact(path, len(found))
    assert found in (victim.before, victim.after)
    assert seen in (None, found)
    return found


def read_only(path: Path, kind: Kind) -> list[int] | None:
    """What a reader without the right to mend anything sees; None where the store waits for a writer to finish a change."""
    try:
        with dataset(path, kind, read_only=True) as ds:
            return identities_of(kind, ds[:])
    except ZrecordError as error:
        if "unfinished" not in str(error):
            raise
        return None


@pytest.mark.parametrize("number", range(len(STORES)), ids=["-".join(store) for store in STORES])
def test_a_killed_writer_loses_nothing(
    processes: Any, tmp_path: Path, memory: Path, dictionary: bytes, number: int
) -> None:
    kind, codec = STORES[number]
    path = tmp_path / "s" if codec == "raw" else memory / "s"
    create(path, kind, codec, dictionary)
    state: list[int] = []
    cuts: Counter[str] = Counter()
    done = 0
    slowest = 0.0
    for cycle in range(number, KILLS, len(STORES)):
        victim = Victim(processes, path, kind, state, cycle)
        started = time.monotonic()
        state = within(PATIENCE, partial(reopened, path, kind, victim, read_only_first=cycle % 4 == 3))
        slowest = max(slowest, time.monotonic() - started)
        cuts[f"{victim.name}: {'whole' if state == victim.after else 'undone'}"] += 1
        done += victim.operations
    logger.info("%s: %s operations, cut in %s, slowest reopening %.3f s", STORES[number], done, dict(cuts), slowest)
    assert dataset(path, kind).stats()["records"] == len(state)


@pytest.mark.parametrize("kind", ["dense", "ragged"])
def test_a_reader_reads_on_while_writers_are_killed(processes: Any, memory: Path, kind: Kind) -> None:
    path = memory / "s"
    create(path, kind, "zstd")
    answer, telling = processes.Pipe(duplex=False)
    stop = processes.Event()
    reader = processes.Process(
        target=follow, args=(path, kind, "mmap" if kind == "dense" else "pread", stop, telling), daemon=True
    )
    reader.start()
    telling.close()
    assert answer.recv() == "open"
    state: list[int] = []
    for cycle in range(max(1, KILLS // 8)):
        victim = Victim(processes, path, kind, state, cycle, alone=False)
        state = within(PATIENCE, partial(reopened, path, kind, victim, read_only_first=True))
    stop.set()
    found: Any = "grown"  # it may have been before, or not
    while found == "grown":
        assert answer.poll(PATIENCE), "the reader hangs"
        found = answer.recv()
    reads, _, seen = found
    reader.join(PATIENCE)
    logger.info("%s: %s reads beside %s killed writers", kind, reads, cycle + 1)
    assert reader.exitcode == 0
    assert reads > cycle
    assert seen == state
