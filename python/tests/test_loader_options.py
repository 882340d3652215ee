"""What a loader can be asked for besides batches in order: as-ready order, skipping, random numbers, loops with a length, counts."""

from __future__ import annotations

import errno
import itertools
import json
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transforms
from loaderx.dataloader import DataLoader
from loaderx.dataloader.threads import Threads
from loaderx.dataset import DenseDataset
from loaderx.dataset.packed import listed
from loaderx.utils import from_numpy
from loaderx.zrecord import StaleStoreError
from numbers_stream import Numbers, drawn, draws
from streams import steps, unbroken
from support import GENEROUS, soon


def loader(**options: Any) -> DataLoader:
    return DataLoader({"n": Numbers(100)}, **{"batch_size": 4, **options})


def slow_at(*steps: int, until: threading.Event | None = None) -> Callable[[dict[str, Any]], Any]:
    """A transform that takes its time at some steps (which it knows by their records), or waits there."""
    run = draws(100, max(steps) + 1, batch_size=4)
    slow = [run[step] for step in steps]

    def transform(batch: dict[str, Any]) -> dict[str, Any]:
        if batch["n"].tolist() in slow:
            (until or threading.Event()).wait(0.5 if until is None else GENEROUS)
        return batch

    return transform


class TestAsReady:
    def test_each_batch_comes_once(self) -> None:
        run = draws(100, 24, batch_size=4)
        go_on = threading.Event()
        with loader(ordered=False, num_workers=3, transform=slow_at(0, 5, until=go_on)) as unordered:
            got = drawn(unordered, 1)
            go_on.set()
            got += drawn(unordered, 19)
            assert got[0] != run[0]
            state = unordered.state_dict()
        assert all(batch in run for batch in got)
        assert len({tuple(batch) for batch in got}) == 20
        assert got != run[:20]
        # What is missing comes after a resume, and nothing twice.
        with loader(ordered=False, num_workers=1) as resumed:
            resumed.load_state_dict(json.loads(json.dumps(state)))
            rest = drawn(resumed, 24 - 20)
        assert sorted(got + rest) == sorted(run)

    def test_the_state_says_which_were_given(self) -> None:
        with loader(ordered=False) as unordered:
            got = drawn(unordered, 50)
            state = unordered.state_dict()
        run = draws(100, 50 + 8, batch_size=4)
        given = [*range(state["step"]), *state["seen"]]
        assert sorted(got) == sorted(run[step] for step in given)

    @pytest.mark.parametrize("workers", [2, 5])
    def test_one_slow_step_is_waited_for_in_the_end(self, workers: int) -> None:
        """The state stays small however long a step takes."""
        with loader(ordered=False, num_workers=workers, transform=slow_at(3)) as unordered:
            longest = 0
            for _ in range(300):
                next(unordered)
                longest = max(longest, len(json.dumps(unordered.state_dict())))
            assert longest < 1024
            assert unordered.step > 290 - 32

    def test_an_ordered_loader_takes_the_state(self) -> None:
        with loader() as ordered:
            ordered.load_state_dict(ordered.state_dict() | {"step": 2, "seen": [3, 5]})
            run = draws(100, 10, batch_size=4)
            assert drawn(ordered, 4) == [run[2], run[4], run[6], run[7]]
            assert ordered.step == 8

    @pytest.mark.parametrize("batches", [0, 1, 10, 40])
    def test_a_store_through_every_kind(self, tmp_path: Path, batches: int) -> None:
        from_numpy(tmp_path / "ds", np.arange(100), codec="raw")
        run = draws(100, batches + 10 + 8, batch_size=4)
        for options in ({}, {"transform": same}, {"worker_type": "process", "num_workers": 1}):
            with DenseDataset(tmp_path / "ds", read_only=True) as ds:
                seen = frozenset(range(2, 2 + min(batches, 30)))
                with DataLoader({"n": ds}, batch_size=4, **options) as ordered:
                    ordered.load_state_dict(ordered.state_dict() | {"step": 1, "seen": sorted(seen)})
                    expected = [step for step in range(1, len(run)) if step not in seen][:8]
                    assert drawn(ordered, 8) == [run[step] for step in expected]
                    assert ordered.stats().ready <= 4 + 4

    def test_what_comes_after_it_was_passed_over_is_let_go_of(self) -> None:
        with loader(num_workers=2, transform=slow_at(3)) as ordered:
            ordered.load_state_dict(ordered.state_dict() | {"seen": [3]})
            run = draws(100, 7, batch_size=4)
            assert drawn(ordered, 6) == [run[step] for step in (0, 1, 2, 4, 5, 6)]
            pipeline = ordered._pipeline
            assert isinstance(pipeline, Threads)
            assert soon(lambda: 3 in pipeline.results)
            next(ordered)
            assert min(pipeline.results, default=7) >= 7


class Flaky:
    """A transform that fails for batches which hold certain records."""

    def __init__(self, *records: int, error: type[BaseException] = ValueError) -> None:
        self.records, self.error = records, error

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if any(record in self.records for record in batch["n"].tolist()):
            raise self.error("flaky")
        return batch


def same(batch: Any) -> Any:
    return batch


RAN_OUT: list[Callable[[], Exception]] = [
    MemoryError,
    lambda: OSError(errno.EMFILE, "too many open files"),
    lambda: OSError(errno.ENOMEM, "no memory"),
    lambda: StaleStoreError("records were moved"),
]


class TestSkip:
    @pytest.mark.parametrize("workers", [1, 4])
    def test_failed_steps_are_passed_over_and_counted(self, workers: int) -> None:
        run = draws(100, 30, batch_size=4)
        good = [batch for batch in run if not {1, 2} & set(batch)]
        with loader(num_workers=workers, on_error="skip", transform=Flaky(1, 2)) as skipping:
            assert drawn(skipping, len(good)) == good
            # Those after the last good one were not come to yet.
            assert skipping.stats().skipped == run.index(good[-1]) + 1 - len(good)
            assert skipping.stats().batches == len(good)

    def test_a_resume_skips_the_same(self) -> None:
        with loader(on_error="skip", transform=Flaky(1, 2)) as skipping:
            drawn(skipping, 10)
            state = skipping.state_dict()
            rest = drawn(skipping, 10)
        with loader(on_error="skip", transform=Flaky(1, 2)) as resumed:
            resumed.load_state_dict(state)
            assert drawn(resumed, 10) == rest

    def test_what_is_no_exception_is_raised(self) -> None:
        with loader(on_error="skip", transform=Flaky(*range(100), error=KeyboardInterrupt)) as skipping:
            with pytest.raises(KeyboardInterrupt):
                next(skipping)
            with pytest.raises(KeyboardInterrupt):
                next(skipping)

    @pytest.mark.parametrize("make", RAN_OUT)
    @pytest.mark.parametrize("batches", [0, 3])
    def test_what_the_machine_ran_out_of_is_raised(self, make: Callable[[], Exception], batches: int) -> None:
        """It is no fault of the step, which another run would have."""
        fails = [iter([False] * batches + [True])]

        def transform(batch: Any) -> Any:
            if next(fails[0], False):
                raise make()
            return batch

        with loader(num_workers=1, on_error="skip", transform=transform) as skipping:
            run = draws(100, batches + 4, batch_size=4)
            assert drawn(skipping, batches) == run[:batches]
            with pytest.raises(type(make())):
                next(skipping)
            assert skipping.step == batches
            assert skipping.stats().skipped == 0
            skipping.seek(batches)
            assert drawn(skipping, 4) == run[batches:]

    def test_what_the_machine_ran_out_of_natively_is_raised(
        self, streams: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Batches of the native pipeline get their arrays when they are handed over."""
        attempts = itertools.count()

        def made(*arguments: Any) -> Any:
            if next(attempts) == 2:
                raise MemoryError
            return listed(*arguments)

        monkeypatch.setattr("loaderx.dataloader.plan.listed", made)
        with DataLoader(streams, batch_size=5, on_error="skip") as skipping:
            assert steps(skipping, 2) == unbroken(2)
            with pytest.raises(MemoryError):
                next(skipping)
            assert (skipping.step, skipping.stats().skipped) == (2, 0)
            skipping.seek(2)
            assert steps(skipping, 2) == unbroken(4)[2:]

    def test_other_errors_of_the_system_are_skipped(self) -> None:
        with loader(on_error="skip", transform=Flaky(1, 2, error=FileNotFoundError)) as skipping:
            drawn(skipping, 20)
            assert skipping.stats().skipped > 0

    def test_it_ends_when_nothing_works(self) -> None:
        failing = loader(on_error="skip", transform=Flaky(*range(100)))
        with failing, pytest.raises(RuntimeError, match="the last 1000 steps failed, and none is skipped any more"):
            next(failing)


class TestNotes:
    def test_an_error_says_where(self) -> None:
        class Broken(Numbers):
            def __getitems__(self, indices: Any) -> Any:
                raise OSError("no such disk")

        broken = DataLoader({"n": Numbers(100), "b": Broken(100)}, batch_size=20)
        with broken, pytest.raises(OSError, match="no such disk") as caught:
            next(broken)
        if hasattr(caught.value, "__notes__"):
            (note,) = caught.value.__notes__
            assert note.startswith("at step 0 of the DataLoader, in stream 'b', records [")
            assert note.endswith(", ... (20 in all)]")


class TestRng:
    def test_it_is_a_function_of_seed_and_step(self) -> None:
        def noise(batch: dict[str, Any], rng: np.random.Generator) -> bytes:
            return rng.bytes(16)

        def run(**options: Any) -> list[bytes]:
            with loader(transform=noise, **options) as made:
                return list(itertools.islice(made, 8))

        first = run()
        assert len(set(first)) == 8
        assert run(num_workers=1) == run(num_workers=16, prefetch_size=1) == first
        assert run(step=3)[:5] == first[3:]
        assert not set(run(seed=43)) & set(first)
        assert not set(run(rank=1, world_size=2)) & set(first)
        assert run(rank=0, world_size=2) == first

    def test_who_does_not_ask_gets_none(self) -> None:
        with loader(transform=lambda batch, **rest: rest) as made:
            assert next(made) == {}
        with loader(transform=lambda batch, *, rng: type(rng).__name__) as made:
            assert next(made) == "Generator"


class TestTake:
    def test_it_has_a_length(self) -> None:
        with loader() as made:
            taken = made.take(5)
            assert len(taken) == 5
            assert next(taken)["n"].tolist() == draws(100, 1, batch_size=4)[0]
            assert len(taken) == 4
            assert len(list(taken)) == 4
            assert list(taken) == []
            assert made.step == 5
            assert list(made.take(0)) == []

    def test_it_ends_with_the_loader(self) -> None:
        made = loader()
        taken = made.take(5)
        next(taken)
        made.close()
        assert list(taken) == []

    def test_bad_counts(self) -> None:
        with loader() as made, pytest.raises(ValueError, match="count: expected 0 to [0-9]*, found -1"):
            made.take(-1)


class TestStats:
    def test_it_says_where_the_time_goes(self) -> None:
        def slow(batch: Any) -> Any:
            time.sleep(0.02)
            return batch

        with loader(transform=slow, num_workers=1) as made:
            assert made.stats().batches == 0
            list(made.take(5))
            stats = made.stats()
            assert stats.batches == 5
            assert stats.transform_seconds >= 0.1
            assert stats.wait_seconds >= 0.02
            assert 0 < stats.gather_seconds < stats.wait_seconds
            deadline = time.monotonic() + 30
            while made.stats().ready < 1 + 4 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert made.stats().ready == 1 + 4


class TestBounds:
    def test_bytes_bound_what_is_made_ahead(self) -> None:
        made = []

        def large(batch: Any) -> Any:
            made.append(0)
            return {"x": [np.zeros(1000), (np.zeros(1000),)]}

        with loader(transform=large, num_workers=1, prefetch_size=20, prefetch_bytes=64_000) as bounded:
            next(bounded)
            next(bounded)
            # Half of the bytes: two batches of 16,000.
            assert soon(lambda: len(made) >= 2 + 2)
            time.sleep(0.3)
            assert len(made) == 2 + 2
            for _ in range(30):
                next(bounded)
            assert soon(lambda: len(made) >= 32 + 2)
            time.sleep(0.3)
            assert len(made) == 32 + 2

    @pytest.mark.parametrize("worker_type", ["thread", "process"])
    @pytest.mark.parametrize("transformed", [False, True])
    def test_bytes_bound_the_first_batches_too(
        self, tmp_path: Path, processes: Any, worker_type: Any, transformed: bool
    ) -> None:
        """Beside a stream whose size is known stands one that nobody can know: batches of 800 KB, where 1 MiB is allowed."""
        from_numpy(tmp_path / "label", np.arange(64), codec="raw")
        made = tmp_path / "made"
        made.mkdir()
        leave = partial(transforms.leave, str(made))
        with DenseDataset(tmp_path / "label", read_only=True) as label:
            given: dict[str, Any] = {
                "label": label,
                "text": transforms.Large(64, 100_000, None if transformed else str(made)),
            }
            options: dict[str, Any] = {"transform": leave} if transformed else {}
            with DataLoader(given, batch_size=8, prefetch_bytes=1 << 20, worker_type=worker_type, **options) as bounded:
                for given_to_me in (1, 2, 3):
                    next(bounded)
                    time.sleep(0.3)
                    assert len(list(made.iterdir())) <= given_to_me + 1
            with DataLoader(given, batch_size=8, worker_type=worker_type, **options) as free:
                before = len(list(made.iterdir()))
                next(free)
                assert soon(lambda: len(list(made.iterdir())) == before + 1 + 4 + 4)

    @pytest.mark.parametrize("workers", [1, 4])
    def test_nothing_is_begun_beside_a_batch_of_unknown_size(self, workers: int) -> None:
        at_work, most = [0], [0]
        lock = threading.Lock()

        def transform(batch: dict[str, Any]) -> dict[str, Any]:
            with lock:
                at_work[0] += 1
                most[0] = max(most[0], at_work[0])
            time.sleep(0.2)
            with lock:
                at_work[0] -= 1
            if batch["n"].tolist() in run[:2]:
                raise ValueError  # says nothing of the size
            return batch

        run = draws(100, 8, batch_size=4)
        with loader(transform=transform, num_workers=workers, prefetch_bytes=1 << 30, on_error="skip") as bounded:
            assert drawn(bounded, 1) == run[2:3]
            assert most[0] == 1
            assert drawn(bounded, 5) == run[3:]
            assert most[0] == workers

    @pytest.mark.parametrize("name", ["prefetch_bytes", "prefetch_size", "num_workers"])
    def test_zero_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name}: expected (at least 1|1 to 65536), found 0"):
            loader(**{name: 0})

    @pytest.mark.parametrize("name", ["ordered", "uneven"])
    def test_flags_are_true_or_false(self, name: str) -> None:
        with pytest.raises(TypeError, match=f"{name}: expected True or False, found 'no'"):
            loader(**{name: "no"})

    @pytest.mark.parametrize(
        ("name", "names"),
        [("ragged", "'list', 'packed'"), ("on_error", "'raise', 'skip'"), ("worker_type", "'thread', 'process'")],
    )
    def test_other_names_are_refused(self, name: str, names: str) -> None:
        with pytest.raises(ValueError, match=f"{name}: expected one of {names}, found 'x'"):
            loader(**{name: "x"})
        with pytest.raises(TypeError, match=f"{name}: expected one of {names}, found 3"):
            loader(**{name: 3})


class TestBatchAt:
    def test_it_is_the_batch_of_the_step(self) -> None:
        run = draws(100, 6, batch_size=4)
        with loader() as made:
            next(made)
            assert [made.batch_at(step)["n"].tolist() for step in (5, 0, 3)] == [run[5], run[0], run[3]]
            assert made.step == 1
            assert drawn(made, 1) == run[1:2]

    def test_its_error_is_raised(self) -> None:
        with loader(transform=Flaky(*range(100))) as made, pytest.raises(ValueError, match="flaky"):
            made.batch_at(7)
