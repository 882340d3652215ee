"""The laws of ranks: the parts in rank order are the batch, whatever the world, and a state is every rank's."""

from __future__ import annotations

import itertools
import json
import sys
import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loaderx.dataloader import DataLoader
from loaderx.sampler import Sampler
from numbers_stream import Numbers, drawn, draws

WORLDS = st.integers(1, 9)
BATCHES = st.integers(1, 17)
LENGTHS = st.integers(1, 200)
MODES = st.sampled_from(Sampler.Mode)


def parts(length: int, batch: int, world: int, mode: int, step: int, count: int) -> list[list[list[int]]]:
    """For each rank, its part of each step."""
    options = {"batch_size": batch, "mode": mode, "step": step, "world_size": world, "uneven": True}
    return [draws(length, count, rank=rank, **options) for rank in range(world)]


@settings(max_examples=60, deadline=None)
@given(WORLDS, BATCHES, LENGTHS, MODES, st.integers(0, 2**40))
def test_the_parts_in_rank_order_are_the_batch(world: int, batch: int, length: int, mode: int, step: int) -> None:
    if mode == Sampler.Mode.CYCLIC:
        batch = min(batch, length)
    sampler = Sampler(length, batch, mode, 42)
    sampler.seek(step)
    every = parts(length, batch, world, mode, step, 2)
    for number, global_batch in enumerate(itertools.islice(sampler, 2)):
        assert [record for part in every for record in part[number]] == global_batch.tolist()
        sizes = [len(part[number]) for part in every]
        assert max(sizes) - min(sizes) <= 1
        assert batch % world or min(sizes) == max(sizes)


@settings(max_examples=40, deadline=None)
@given(WORLDS, st.integers(1, 3), st.integers(1, 12), st.integers(0, 30))
def test_ranks_are_disjoint_and_complete_in_a_cycle(world: int, times: int, steps: int, extra: int) -> None:
    batch = world * times
    length = batch * steps + extra % batch
    every = parts(length, batch, world, Sampler.Mode.CYCLIC, 0, steps)
    seen = [record for part in every for step in part for record in step]
    assert len(seen) == len(set(seen)) == batch * steps
    assert all(len(step) == times for part in every for step in part)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_state_of_any_rank_goes_on_in_any_world(data: st.DataObject) -> None:
    length, mode = data.draw(LENGTHS), data.draw(MODES)
    batch = data.draw(BATCHES)
    if mode == Sampler.Mode.CYCLIC:
        batch = min(batch, length)
    before, after = data.draw(WORLDS), data.draw(WORLDS)
    steps = data.draw(st.integers(0, 3 * (length // batch) + 1))
    options: dict[str, Any] = {"batch_size": batch, "mode": mode, "uneven": True, "prefetch_size": 2}
    saver = data.draw(st.integers(0, before - 1))
    with DataLoader({"n": Numbers(length)}, 1, rank=saver, world_size=before, **options) as loader:
        drawn(loader, steps)
        state = json.dumps(loader.state_dict())
    parts = []
    for rank in range(after):
        with DataLoader({"n": Numbers(length)}, 1, rank=rank, world_size=after, **options) as loader:
            loader.load_state_dict(json.loads(state))
            assert loader.step == steps
            parts.append(drawn(loader, 2))
    sampler = Sampler(length, batch, mode, 42)
    for number in range(2):
        assert [record for part in parts for record in part[number]] == sampler.batch_at(steps + number).tolist()


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"rank": 2, "world_size": 2}, ValueError, "rank: expected 0 to 1 in a world of 2, found 2"),
        ({"rank": -1, "world_size": 2}, ValueError, "rank: expected at least 0, found -1"),
        ({"rank": 0, "world_size": 0}, ValueError, "world_size: expected at least 1, found 0"),
        ({"rank": 0}, ValueError, "rank: expected world_size with it, found world_size=None"),
        ({"world_size": 2}, ValueError, "world_size: expected rank with it, found rank=None"),
        ({"rank": 0.0, "world_size": 1}, TypeError, "rank: expected an integer, found 0.0"),
        (
            {"rank": 0, "world_size": 3, "batch_size": 8},
            ValueError,
            "batch_size: expected a multiple of the world size 3, found 8; uneven=True",
        ),
    ],
)
def test_ranks_that_are_refused(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        DataLoader({"n": Numbers(100)}, **{"batch_size": 8, **arguments})


def test_a_rank_without_records_gets_empty_batches() -> None:
    with DataLoader({"n": Numbers(10)}, 1, 1, rank=0, world_size=3, uneven=True) as loader:
        assert loader.local_batch_size == 0
        assert [batch["n"].shape for batch in loader.take(3)] == [(0,)] * 3


def test_defaults_come_from_torch_distributed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake: Any = types.ModuleType("torch.distributed")
    fake.is_available = fake.is_initialized = lambda: True
    fake.get_rank, fake.get_world_size = (lambda: 1), (lambda: 4)
    monkeypatch.setitem(sys.modules, "torch.distributed", fake)
    with DataLoader({"n": Numbers(100)}, 1, 8) as loader:
        assert (loader.rank, loader.world_size, loader.local_batch_size) == (1, 4, 2)
        assert "rank=1, world_size=4" in repr(loader)
    with DataLoader({"n": Numbers(100)}, 1, 8, rank=0, world_size=2) as loader:
        assert (loader.rank, loader.world_size) == (0, 2)  # what is said wins
    fake.is_initialized = lambda: False
    with DataLoader({"n": Numbers(100)}, 1, 8) as loader:
        assert (loader.rank, loader.world_size) == (0, 1)


def test_defaults_come_from_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    fake: Any = types.ModuleType("jax")
    fake.distributed = types.SimpleNamespace(is_initialized=lambda: True)
    fake.process_index, fake.process_count = (lambda: 2), (lambda: 3)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    monkeypatch.setitem(sys.modules, "jax", fake)
    with DataLoader({"n": Numbers(100)}, 1, 9) as loader:
        assert (loader.rank, loader.world_size, loader.local_batch_size) == (2, 3, 3)


def test_many_ranks_and_few_records() -> None:
    """A world of 64 over 100 records: every rank gets its share."""
    parts = [draws(100, 3, batch_size=64, mode=1, rank=rank, world_size=64) for rank in range(64)]
    sampler = Sampler(100, 64, 1, 42)
    for number in range(3):
        assert np.concatenate([part[number] for part in parts]).tolist() == sampler.batch_at(number).tolist()


def test_a_state_is_every_ranks_or_there_is_none() -> None:
    with pytest.raises(ValueError, match="ordered: expected True in a world of 2, where a state is every rank's"):
        DataLoader({"n": Numbers(100)}, 1, 8, rank=0, world_size=2, ordered=False)


@pytest.mark.parametrize("name", ["jax", "torch.distributed"])
def test_a_framework_that_is_half_imported_says_nothing(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    with DataLoader({"n": Numbers(100)}, 1, 8) as loader:
        assert (loader.rank, loader.world_size) == (0, 1)
