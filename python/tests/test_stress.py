"""Several handles, threads and processes at one store: each sees whole, right records of one state, or is refused.

`LOADERX_STRESS_SECONDS` is how long readers read beside a writer (`make test-stress`: 30).
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataloader import DataLoader
from loaderx.sampler import Sampler
from loaderx.zrecord import StoreLockedError
from support import swap_last, unchanged
from twin import Dataset, Kind, are, batch, dataset, identities_of, in_small_chunks, small_store, writes
from workers import GROUP, follow, hold, open_and_close

SECONDS = float(os.environ.get("LOADERX_STRESS_SECONDS", "5"))
PATIENCE = 60
KINDS: list[Kind] = ["dense", "ragged"]
logger = logging.getLogger(__name__)

pytestmark = pytest.mark.timeout(120 + 4 * SECONDS)


class Crew:
    """Processes that do the same until they are told to stop."""

    def __init__(self, processes: Any, target: Callable[..., None], arguments: list[tuple[Any, ...]]) -> None:
        self.stop = processes.Event()
        self.members = []
        for own in arguments:
            answers, answer = processes.Pipe(duplex=False)
            process = processes.Process(target=target, args=(*own, self.stop, answer), daemon=True)
            process.start()
            answer.close()
            self.members.append((process, answers))

    def answers(self) -> list[Any]:
        """The next answer of each."""
        found = []
        for _, answers in self.members:
            assert answers.poll(PATIENCE), "a process hangs"
            found.append(answers.recv())
        return found

    def has_answers(self) -> bool:
        """Whether each has one that wasn't taken."""
        return all(answers.poll() for _, answers in self.members)

    def end(self) -> None:
        self.stop.set()
        for process, _ in self.members:
            process.join(PATIENCE)
        assert [process.exitcode for process, _ in self.members] == [0] * len(self.members)


@pytest.fixture
def store(memory: Path, request: pytest.FixtureRequest) -> tuple[Path, Kind]:
    kind: Kind = getattr(request, "param", "dense")
    return small_store(memory / "s", kind)


both = pytest.mark.parametrize("store", KINDS, indirect=True)


def test_a_second_writer_is_refused_by_name(processes: Any, store: tuple[Path, Kind]) -> None:
    path, kind = store
    crew = Crew(processes, hold, [(path, kind, True)])
    (writer,) = crew.answers()
    with dataset(path, kind) as ds, unchanged(path):
        for change in writes(ds, kind):
            with pytest.raises(StoreLockedError, match=f"{path}.*process {writer} writes.*one writer"):
                change()
            assert are(kind, ds[:], range(20))
        assert not ds._store.has_written
    crew.end()
    with dataset(path, kind) as ds:
        ds.append(batch(kind, [20]))
        with dataset(path, kind) as second, unchanged(path), pytest.raises(StoreLockedError, match=f"id {os.getpid()}"):
            second.append(batch(kind, [1]))
        assert are(kind, ds[:], range(21))


@both
def test_readers_beside_a_writer(processes: Any, store: tuple[Path, Kind]) -> None:
    path, kind = store
    crew = Crew(processes, follow, [(path, kind, ("mmap", "pread")[i % 2]) for i in range(8)])
    assert crew.answers() == ["open"] * 8
    there = list(range(20))
    appends = 0
    rng = random.Random(1)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or (time.monotonic() < end + PATIENCE and not crew.has_answers()):
        with in_small_chunks(path, kind) as ds:
            for _ in range(rng.randint(1, 60)):
                more = list(range(len(there), len(there) + rng.choice((1, 3, 20, 60))))
                assert ds.append(batch(kind, more)) == len(there)
                there += more
                appends += 1
                time.sleep(0.003)
            ds.sync()
    assert crew.answers() == ["grown"] * 8
    crew.stop.set()
    answers = crew.answers()
    crew.end()
    logger.info("%s: %s appends, %s records; reads %s", kind, appends, len(there), [reads for reads, _, _ in answers])
    for reads, grown, seen in answers:
        assert reads >= grown > 1
        assert seen == there


@both
def test_records_do_not_move_while_others_have_the_store_open(processes: Any, store: tuple[Path, Kind]) -> None:
    path, kind = store
    crew = Crew(processes, hold, [(path, kind, False)])
    crew.answers()
    alone = "needs the store alone, but another handle or process has it open"
    with in_small_chunks(path, kind) as ds:
        ds._store.begin_write()
        with unchanged(path):
            for change in (lambda: ds.delete([3, 5]), ds.compact, lambda: ds._store.hold("a test")):
                with pytest.raises(StoreLockedError, match=alone):
                    change()
        assert are(kind, ds[:], range(20))
        ds.append(batch(kind, [20]))
        crew.end()
        with dataset(path, kind), pytest.raises(StoreLockedError, match=alone):
            ds.delete(3)
        ds.delete([3, 5])
        ds.compact()
        assert are(kind, ds[:], swap_last(range(21), [3, 5]))


@both
def test_openers_that_race_with_deletions(processes: Any, store: tuple[Path, Kind]) -> None:
    """Records come and go in groups, so an opener can tell a half-done deletion."""
    path, kind = store
    with in_small_chunks(path, kind) as ds:
        ds.delete(range(16, 20))
        there = list(range(16))
        crew = Crew(processes, open_and_close, [(path, kind, i % 2 == 0) for i in range(3)])
        assert crew.answers() == ["open"] * 3
        fresh = 2 * GROUP
        done = refused = 0
        rng = random.Random(1)
        end = time.monotonic() + SECONDS / 4
        while time.monotonic() < end or (time.monotonic() < end + PATIENCE and not done):
            if len(there) < 300:
                more = range(fresh, fresh + 3 * GROUP)
                fresh += 3 * GROUP
                ds.append(batch(kind, more))
                there += more
            gone = rng.sample(sorted({identity // GROUP for identity in there}), 2)
            removed = [index for index, identity in enumerate(there) if identity // GROUP in gone]
            try:
                ds.delete(removed)
                there = swap_last(there, removed)
                ds.compact()
                done += 1
            except StoreLockedError as error:
                assert "needs the store alone" in str(error)  # noqa: PT017
                refused += 1
            assert are(kind, ds[:], there)
        crew.stop.set()
        answers = crew.answers()
        crew.end()
        logger.info("%s: %s changes, %s refused; openers (opened, refused) %s", kind, done, refused, answers)
        assert done > 0
        assert all(opened > 0 for opened, _ in answers)


class Mover:
    """A thread that deletes, appends and compacts through a handle, and every state that the records were in."""

    def __init__(self, ds: Dataset, kind: Kind, keep: int) -> None:
        self.states = [identities_of(kind, ds[:])]
        self.moves = 0
        self.failure: BaseException | None = None
        self._ds, self._kind, self._keep = ds, kind, keep
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        rng = random.Random(1)
        fresh = 10_000
        try:
            while not self._stop.is_set():
                now = self.states[-1]
                more = range(fresh, fresh + rng.randint(1, 30))
                fresh += len(more)
                removed = rng.sample(range(len(now) + len(more)), len(now) + len(more) - self._keep)
                # Stated before they are done: whoever reads meanwhile may find any of them.
                self.states.append([*now, *more])
                self._ds.append(batch(self._kind, more))
                self.states.append(swap_last(self.states[-1], removed))
                self._ds.delete(removed)
                if rng.random() < 0.3:
                    self._ds.compact()
                self.moves += 1
        except BaseException as error:
            self.failure = error

    def __enter__(self) -> Mover:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure


def of_one_state(found: list[int], indices: Iterable[int], states: list[list[int]]) -> bool:
    """Whether some state holds just these identities at these indices."""
    return any(found == [state[index] for index in indices] for state in reversed(states))


@both
def test_records_move_while_a_loader_of_the_same_handle_reads(store: tuple[Path, Kind]) -> None:
    """A deletion waits for the batches that are being read, and they for it: each is of one state, whole."""
    path, kind = store
    with in_small_chunks(path, kind) as ds:
        ds.append(batch(kind, range(20, 100)))
        loader = DataLoader({"s": ds}, num_workers=3, batch_size=32)
        sampler = Sampler(100, 32, Sampler.Mode.CYCLIC)
        batches = 0
        with loader, Mover(ds, kind, keep=100) as mover:
            end = time.monotonic() + SECONDS / 4
            while time.monotonic() < end or mover.moves < 3:
                assert mover.failure is None
                assert time.monotonic() < end + PATIENCE, mover.moves
                found = identities_of(kind, next(loader)["s"])
                assert of_one_state(found, next(sampler).tolist(), mover.states), f"batch {batches} mixes states"
                batches += 1
        logger.info("%s: %s batches beside %s deletions", kind, batches, mover.moves)
        assert are(kind, ds[:], mover.states[-1])


@both
def test_threads_that_read_what_another_thread_deletes(store: tuple[Path, Kind]) -> None:
    path, kind = store
    with in_small_chunks(path, kind) as ds:
        ds.append(batch(kind, range(20, 100)))
        reads = [0, 0]
        failures: list[BaseException] = []

        def read(reader: int) -> None:
            rng = np.random.default_rng(reader)
            try:
                while mover.failure is None and (
                    time.monotonic() < end or (time.monotonic() < end + PATIENCE and not reads[reader])
                ):
                    indices = rng.integers(0, 100, 16)
                    states = len(mover.states)
                    found = identities_of(kind, ds[indices])
                    assert of_one_state(found, indices.tolist(), mover.states[max(0, states - 2) :]), "mixes states"
                    one = int(indices[0])
                    assert identities_of(kind, [ds[one]])
                    reads[reader] += 1
            except BaseException as error:
                failures.append(error)

        with Mover(ds, kind, keep=100) as mover:
            end = time.monotonic() + SECONDS / 4
            threads = [threading.Thread(target=read, args=(reader,)) for reader in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
        assert not failures, failures[0]
        logger.info("%s: %s reads beside %s deletions", kind, reads, mover.moves)
        assert min(reads) > 0


@both
def test_records_do_not_move_under_a_loader_of_another_handle(store: tuple[Path, Kind]) -> None:
    path, kind = store
    with dataset(path, kind, read_only=True) as ds, DataLoader({"s": ds}, num_workers=2, batch_size=8) as loader:
        next(loader)
        with dataset(path, kind) as other:
            for change in (partial(other.delete, 0), other.compact):
                with pytest.raises(StoreLockedError, match="needs the store alone"):
                    change()
            other.append(batch(kind, [20]))
        for _ in range(20):
            assert max(identities_of(kind, next(loader)["s"])) < 20
