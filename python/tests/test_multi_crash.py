"""A process that dies in the middle of a change to several streams: what the others find."""

from __future__ import annotations

import logging
import os
import random
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from identities import NAMES, die, dies, dying, fork, ids_of, leftovers, make, opened_ids, part
from loaderx.dataset import MSDataset, pending
from loaderx.zrecord import StoreLockedError, Zrecord, ZrecordError
from support import GENEROUS, ended, in_memory, swap_last, unchanged

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")

CYCLES = int(os.environ.get("LOADERX_MULTI_KILLS", "30"))
BEFORE = list(range(10, 22))
GONE = [0, 3, 9, 11]
AFTER = swap_last(BEFORE, GONE)


@pytest.fixture
def home() -> Iterator[Path]:
    """A kill takes nothing that was written, synced or not: memory does as well as a disk, and syncs at once."""
    with tempfile.TemporaryDirectory(dir=in_memory()) as name:
        yield Path(name)


@pytest.fixture
def root(home: Path) -> Path:
    return make(home / "multi", BEFORE)


def append_dying(root: Path, after: int) -> None:
    """Append two records, and die when `after` streams have got theirs."""
    with MSDataset(root) as ds:
        step = dying(lambda write, checked: write(checked), after)
        for stream in ds.streams.values():
            write = stream._write
            stream._write = lambda checked, write=write: step(write, checked)  # type: ignore[method-assign]
        ds.append(part([1, 2]))
        die()


@pytest.mark.parametrize("streams", range(4))
def test_a_death_between_two_streams_of_an_append(root: Path, streams: int) -> None:
    dies(lambda: append_dying(root, streams))
    lengths = {name: len(BEFORE) + (2 if place < streams else 0) for place, name in enumerate(NAMES)}
    if streams in (1, 2):
        text = (
            f"{root}: expected streams of one length, found {lengths}: a writer was cut between two streams, or one of them "
            f"was changed on its own. After a cut append MSDataset.repair('{root}') cuts them to the 12 records that "
            "all of them have; after a deletion from one of them that would put wrong records together"
        )
        with unchanged(root), pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            MSDataset(root, read_only=True)
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            MSDataset(root)
        assert MSDataset.repair(root) == {name: range(12, 14) for name in NAMES[:streams]}
    assert MSDataset.repair(str(root)) == {}
    with MSDataset(root) as ds:
        kept = ids_of(ds)
        assert kept == (BEFORE if streams < 3 else [*BEFORE, 1, 2])
        assert ds.append(part([5])) == len(kept)
        ds.delete([0])
        assert ids_of(ds) == [5, *kept[1:]]
    assert leftovers(root) == []


def delete_dying(root: Path, patch: pytest.MonkeyPatch, point: str) -> None:
    """Delete `GONE`, and die at this point."""
    if point == "before it is stated":
        patch.setattr(pending, "write", die)
    elif point == "before the statement goes":
        patch.setattr(pending, "remove", die)
    elif point != "after it all":
        patch.setattr(Zrecord, "delete", dying(Zrecord.delete, int(point[0])))
    with MSDataset(root) as ds:
        ds.delete(GONE)
        die()


POINTS = [
    "before it is stated",
    "0 streams have done it",
    "1 stream has done it",
    "2 streams have done it",
    "before the statement goes",
    "after it all",
]


@pytest.mark.parametrize("way", ["some names", "repair", "read only first"])
@pytest.mark.parametrize("point", POINTS)
def test_a_death_between_two_streams_of_a_delete(
    root: Path, monkeypatch: pytest.MonkeyPatch, point: str, way: str
) -> None:
    dies(lambda: delete_dying(root, monkeypatch, point))
    begun = point != POINTS[0]
    assert leftovers(root) == ([str(root / "pending.msgpack")] if begun and point != POINTS[-1] else [])
    expected = AFTER if begun else BEFORE
    if way == "repair":
        assert MSDataset.repair(root) == {}
    elif way == "some names":
        with MSDataset(root, names=["ragged"]) as ds:
            assert len(ds) == len(expected)
    else:
        with unchanged(root):
            if point[0] in "012":
                with pytest.raises(ZrecordError, match="unfinished delete: the streams .* still have the records") as e:
                    MSDataset(root, read_only=True)
                assert "open it once with write permission to finish it" in str(e.value)
                assert str(NAMES[int(point[0]) :]) in str(e.value)
            else:
                assert opened_ids(root, read_only=True) == expected
    if way in ("repair", "some names"):
        assert leftovers(root) == []
    assert opened_ids(root) == expected
    assert leftovers(root) == []
    assert opened_ids(root, read_only=True) == expected
    with MSDataset(root) as ds:
        ds.append(part([1]))
        ds.delete([1])
        assert ids_of(ds) == swap_last([*expected, 1], [1])


def test_a_death_in_finishing_is_finished_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dies(lambda: delete_dying(root, monkeypatch, POINTS[1]))

    def die_again() -> None:
        monkeypatch.setattr(Zrecord, "delete", dying(Zrecord.delete, 1))
        MSDataset(root)

    dies(die_again)
    dies(die_again)
    # Each has brought one stream further.
    assert opened_ids(root) == AFTER


def test_a_death_in_a_repair_is_repaired(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dies(lambda: append_dying(root, 2))

    def repair() -> None:
        monkeypatch.setattr(Zrecord, "delete", dying(Zrecord.delete, 1))
        MSDataset.repair(root)

    dies(repair)
    assert MSDataset.repair(root) == {"ragged": range(12, 14)}
    assert opened_ids(root) == BEFORE


@pytest.mark.parametrize("name", NAMES)
def test_a_delete_is_refused_while_another_process_has_one_stream_open(root: Path, name: str) -> None:
    with Paused(lambda pause: reading(root, name, pause)):
        for what in ("delete", "compact"):
            with unchanged(root, but="lock.zr"), MSDataset(root) as ds:
                with pytest.raises(StoreLockedError, match=f"{what} needs the store alone, but another handle or"):
                    ds.delete(GONE) if what == "delete" else ds.compact()
                assert ids_of(ds) == BEFORE
                # And none stays held.
                assert opened_ids(root) == BEFORE
        with unchanged(root, but="lock.zr"), pytest.raises(StoreLockedError, match="repair needs the store alone"):
            MSDataset.repair(root)
    with MSDataset(root) as ds:
        ds.delete(GONE)
        assert ids_of(ds) == AFTER


def reading(root: Path, name: str, pause: Callable[[], None]) -> None:
    with MSDataset(root, names=[name], read_only=True):
        pause()


@pytest.mark.parametrize("streams", [0, 1, 2])
@pytest.mark.parametrize("killed", [False, True])
def test_nobody_opens_what_is_being_deleted_from(
    root: Path, monkeypatch: pytest.MonkeyPatch, streams: int, killed: bool
) -> None:
    def delete(pause: Callable[[], None]) -> None:
        calls = iter(range(3))
        plain = Zrecord.delete

        def step(store: Zrecord, idxs: Any) -> None:
            if next(calls) == streams:
                pause()
            plain(store, idxs)

        monkeypatch.setattr(Zrecord, "delete", step)
        with MSDataset(root) as ds:
            ds.delete(GONE)

    with Paused(delete) as deleter:
        with unchanged(root):
            attempts: list[Callable[[], Any]] = [
                lambda: MSDataset(root),
                lambda: MSDataset(root, read_only=True),
                lambda: MSDataset(root, names=["squeezed"]),
                lambda: MSDataset.repair(root),
            ]
            with ThreadPoolExecutor(len(attempts)) as pool:  # each waits for half a second
                for outcome in [pool.submit(attempt) for attempt in attempts]:
                    with pytest.raises(StoreLockedError, match="another handle is deleting from it"):
                        outcome.result(30)
        if killed:
            os.kill(deleter.child, signal.SIGKILL)
            assert ended(deleter.child) == -signal.SIGKILL
            deleter.child = 0
        else:
            deleter.go_on()
    assert opened_ids(root) == AFTER
    assert leftovers(root) == []


def test_many_open_at_once_what_one_of_them_must_finish(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the ranks of a training do that is started again after the machine went down."""
    dies(lambda: delete_dying(root, monkeypatch, POINTS[2]))
    reading, writing = os.pipe()

    def work() -> None:
        os.close(writing)
        os.read(reading, 1)
        assert opened_ids(root) == AFTER

    children = [fork(work) for _ in range(6)]
    os.close(reading)
    os.close(writing)
    assert [ended(child) for child in children] == [0] * 6
    assert leftovers(root) == []


class Paused:
    """A child that works up to a point, and goes on, or ends, with the block."""

    def __init__(self, work: Callable[[Callable[[], None]], None]) -> None:
        (told, tell), (self._there, there) = os.pipe(), os.pipe()

        def pause() -> None:
            os.write(there, b"x")
            os.read(told, 1)

        def child() -> None:
            os.close(tell)
            os.close(self._there)
            work(pause)

        self.child = fork(child)
        self._tell = tell
        os.close(told)
        os.close(there)

    def __enter__(self) -> Paused:
        assert os.read(self._there, 1) == b"x"
        return self

    def go_on(self) -> None:
        os.write(self._tell, b"x")
        assert ended(self.child) == 0
        self.child = 0

    def __exit__(self, *_: object) -> None:
        if self.child:
            self.go_on()
        os.close(self._tell)
        os.close(self._there)


# -- a process that is killed anywhere


def change_for_ever(root: Path, journal: int, seed: int, ids: list[int]) -> None:
    """Change the streams at random; each change is told before it begins and when it is done."""
    rng = random.Random(seed)
    fresh = max(ids, default=0) + 1
    parent = os.getppid()
    while os.getppid() == parent:
        with MSDataset(root) as ds:
            for _ in range(rng.randrange(1, 12)):
                kind = rng.choice(["append", "append", "delete", "delete", "compact", "sync"])
                if kind == "append":
                    values = list(range(fresh, fresh + rng.randrange(1, 40)))
                    fresh = values[-1] + 1
                elif kind == "delete":
                    values = sorted(rng.sample(range(len(ds)), min(len(ds), rng.randrange(1, 30))))
                else:
                    values = []
                os.write(journal, f"{kind} {' '.join(map(str, values))}\n".encode())
                if kind == "append":
                    ds.append(part(values))
                elif kind == "delete":
                    ds.delete(values)
                else:
                    getattr(ds, kind)()
                os.write(journal, b"done\n")


def told(journal: Path, ids: list[int]) -> Iterator[tuple[str, list[int]]]:
    """The change in which the child was killed, and what the dataset holds, without it and with it."""
    kind, done, after = "", list(ids), list(ids)
    for line in journal.read_text().splitlines():
        if line == "done":
            kind, done = "", after
            continue
        kind, *words = line.split()
        values = [int(word) for word in words]
        after = [*done, *values] if kind == "append" else swap_last(done, values if kind == "delete" else [])
    yield kind, done
    yield kind, after


@pytest.mark.timeout(120 + 4 * CYCLES)
def test_kills_at_random_points(home: Path) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    root, journal = make(home / "multi"), home / "journal"
    ids: list[int] = []
    seen: dict[str, int] = {}
    for cycle in range(CYCLES):
        descriptor = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        child = fork(lambda: change_for_ever(root, descriptor, rng.randrange(1 << 32), ids))  # noqa: B023
        os.close(descriptor)
        try:
            wait_for_change(child, journal, rng.choice(["", "append", "delete"]), rng.randrange(5))
            time.sleep(rng.choice([0, 0.001, 0.03]) * rng.random())
        finally:
            os.kill(child, signal.SIGKILL)
        assert ended(child) == -signal.SIGKILL
        (kind, without), (_, whole) = told(journal, ids)
        seen[kind or "between"] = seen.get(kind or "between", 0) + 1
        if (root / "pending.msgpack").exists():
            seen["stated"] = seen.get("stated", 0) + 1
            assert kind == "delete"
        if kind == "append" and (report := repaired(root)):
            assert set(report.values()) == {range(len(without), len(whole))}
            seen["repaired"] = seen.get("repaired", 0) + 1
            whole = without
        found = opened_ids(root)
        assert found in (without, whole), f"seed {seed}, cycle {cycle}, in {kind}"
        assert MSDataset.repair(root) == {}
        assert leftovers(root) == []
        ids = found
    logging.getLogger(__name__).info("killed %d times, in %s", CYCLES, seen)


def wait_for_change(child: int, journal: Path, kind: str, number: int) -> None:
    """Wait until so many changes are done, and one of this kind is under way."""
    deadline = time.monotonic() + 2 * GENEROUS
    while True:
        assert os.waitpid(child, os.WNOHANG) == (0, 0), journal.read_text()
        assert time.monotonic() < deadline, journal.read_text()
        content = journal.read_text()
        last = content[content[:-1].rfind("\n") + 1 :]
        if content.count("done") >= number and last not in ("", "done\n") and last.startswith(kind):
            return
        time.sleep(0.0001)


def repaired(root: Path) -> dict[str, range]:
    """What `repair` drops if opening asks for it."""
    try:
        MSDataset(root).close()
    except ValueError as error:
        if "expected streams of one length, found" not in str(error):
            raise
        return MSDataset.repair(root)
    return {}
