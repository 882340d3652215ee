"""Loaders with buckets: the same batches however they are made, on any ranks, and after any resume."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transforms
from hypothesis import given, settings
from hypothesis import strategies as st
from loaderx import Buckets, DataLoader, DenseDataset, Mixture, RaggedDataset, from_iterator, from_numpy
from loaderx.dataloader.transforms import generator
from numbers_stream import Numbers, drawn, draws, flat

COUNT = 700
LENGTHS = np.random.default_rng(5).integers(0, 60, COUNT)
BUCKETS = Buckets(LENGTHS, tokens=600, multiple_of=2)


def expected(first: int, count: int, seed: int = 42) -> list[list[int]]:
    sampler = BUCKETS.sampler(seed)
    return [sampler.batch_at(step).tolist() for step in range(first, first + count)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record i of both streams is made of i: as many as `LENGTHS` says, and two of them."""
    home = tmp_path_factory.mktemp("buckets")
    from_iterator(home / "tokens", [np.full(length, i, np.int32) for i, length in enumerate(LENGTHS)], np.int32)
    from_numpy(home / "id", np.arange(COUNT, dtype=np.int64)[:, None].repeat(2, 1))
    return home


@pytest.fixture
def streams(root: Path) -> Any:
    with DenseDataset(root / "id", read_only=True) as ids, RaggedDataset(root / "tokens", read_only=True) as tokens:
        yield {"id": ids, "tokens": tokens}


WAYS: list[dict[str, Any]] = [
    {"num_workers": 1, "prefetch_size": 1},
    {"num_workers": 4, "prefetch_size": 9},
    {"transform": transforms.plain, "num_workers": 3},
    {"prefetch_bytes": 1},
    {"worker_type": "process", "num_workers": 2},
]


@pytest.mark.parametrize("ragged", ["list", "packed"])
@pytest.mark.parametrize("way", WAYS, ids=range(len(WAYS)))
@pytest.mark.usefixtures("processes")
def test_the_same_batches_however_they_are_made(streams: Any, way: dict[str, Any], ragged: Any) -> None:
    steps = BUCKETS.batches + 20
    with DataLoader(streams, buckets=BUCKETS, ragged=ragged, **way) as loader:
        for records, batch in zip(expected(0, steps), loader.take(steps), strict=True):
            check(batch, records, ragged)
        check(loader.batch_at(10**9), expected(10**9, 1)[0], ragged)
        loader.seek(10**12)
        check(next(loader), expected(10**12, 1)[0], ragged)


def check(batch: dict[str, Any], records: list[int], ragged: str) -> None:
    assert batch["id"].tolist() == [[record, record] for record in records]
    if ragged == "packed":
        values, offsets, _ = batch["tokens"]
        assert np.diff(offsets).tolist() == LENGTHS[records].tolist()
        assert values.tolist() == np.repeat(records, LENGTHS[records]).tolist()
    else:
        assert [content.tolist() for content in batch["tokens"]] == [[record] * LENGTHS[record] for record in records]


def test_a_pass_and_its_budget(streams: Any) -> None:
    with DataLoader(streams, buckets=BUCKETS) as loader:
        assert loader.length == COUNT
        assert loader.steps_per_pass == BUCKETS.batches
        assert loader.batch_size == loader.local_batch_size == max(BUCKETS.batch_sizes)
        for _ in range(3):
            batches = [batch["id"][:, 0] for batch in loader.take(loader.steps_per_pass)]
            counts = Counter(np.concatenate(batches).tolist())
            assert max(counts.values()) == 1
            assert len(counts) == COUNT - BUCKETS.left_over
            assert all(max(LENGTHS[batch].max(), 1) * len(batch) <= 600 for batch in batches)
            tokens = sum(LENGTHS[batch].sum() for batch in batches)
            assert tokens / sum(LENGTHS[batch].max() * len(batch) for batch in batches) >= 1 - BUCKETS.padding


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_ranks_share_each_batch_and_a_state_of_any_goes_on_in_any_world(data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(0, 30), min_size=12, max_size=150))
    buckets = Buckets(lengths, tokens=12 * 30, multiple_of=12)
    sampler = buckets.sampler(9)
    steps = data.draw(st.integers(0, 3 * buckets.batches))
    before, after = (data.draw(st.sampled_from([1, 2, 3, 4, 6, 12])) for _ in range(2))
    options: dict[str, Any] = {"buckets": buckets, "seed": 9, "prefetch_size": 2}
    saver = data.draw(st.integers(0, before - 1))
    with DataLoader({"n": Numbers(len(lengths))}, 1, rank=saver, world_size=before, **options) as loader:
        drawn(loader, steps)
        state = json.dumps(loader.state_dict())
    parts = []
    for rank in range(after):
        with DataLoader({"n": Numbers(len(lengths))}, 1, rank=rank, world_size=after, **options) as loader:
            loader.load_state_dict(json.loads(state))
            assert loader.step == steps
            assert loader.local_batch_size == max(buckets.batch_sizes) // after
            parts.append(drawn(loader, 3))
    for number in range(3):
        assert flat(part[number] for part in parts) == sampler.batch_at(steps + number).tolist()
        assert len({len(part[number]) for part in parts}) == 1


def test_worlds_that_do_not_divide_each_batch() -> None:
    text = (
        r"batch_size: expected a multiple of the world size 3, found \d+; "
        r"Buckets\(multiple_of=...\) makes all sizes multiples of a number, uneven=True"
    )
    with pytest.raises(ValueError, match=text):
        DataLoader({"n": Numbers(COUNT)}, buckets=BUCKETS, rank=0, world_size=3)
    options: dict[str, Any] = {"buckets": BUCKETS, "world_size": 7, "uneven": True}
    parts = [draws(COUNT, 30, rank=rank, **options) for rank in range(7)]
    for step, records in enumerate(expected(0, 30)):
        sizes = [len(part[step]) for part in parts]
        assert flat(part[step] for part in parts) == records
        assert max(sizes) - min(sizes) <= 1


def noise(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return batch | {"noise": rng.random(2)}


def test_transforms_get_numbers_of_their_place(streams: Any) -> None:
    for rank in range(2):
        with DataLoader(streams, buckets=BUCKETS, transform=noise, rank=rank, world_size=2) as loader:
            for step, batch in enumerate(loader.take(20)):
                place = len(expected(step, 1)[0]) // 2 * rank
                assert np.array_equal(batch["noise"], generator(42, step, place).random(2))


def test_out_of_turn() -> None:
    with DataLoader({"n": Numbers(COUNT)}, buckets=BUCKETS, ordered=False) as loader:
        found = sorted(drawn(loader, 50))
        state = json.loads(json.dumps(loader.state_dict()))
    given = [*range(state["step"]), *state["seen"]]
    assert found == sorted(records for step in given for records in expected(step, 1))


def test_states_of_other_choices_are_refused() -> None:
    choices: list[dict[str, Any]] = [
        {"batch_size": 30},
        {"buckets": Buckets(LENGTHS, batch_size=30)},
        {"buckets": Buckets(LENGTHS, batch_size=30, bounds=[20, 59])},
        {"buckets": Buckets(LENGTHS, batch_size=30, bounds=[35, 59])},
        {"buckets": Buckets(LENGTHS[::-1].copy(), batch_size=30)},
        {"buckets": Buckets(LENGTHS, tokens=1000)},
        {"buckets": Buckets(LENGTHS, tokens=1000, multiple_of=2)},
    ]
    states = []
    for choice in choices:
        with DataLoader({"n": Numbers(COUNT)}, **choice) as loader:
            states.append(json.loads(json.dumps(loader.state_dict())))
    for i, choice in enumerate(choices):
        for j, state in enumerate(states):
            with DataLoader({"n": Numbers(COUNT)}, **choice) as loader:
                if i == j:
                    loader.load_state_dict(state)
                    continue
                with pytest.raises(ValueError, match=r"state: (batch_size|fingerprint: selection): expected this"):
                    loader.load_state_dict(state)


def test_equal_buckets_made_anew_take_the_state() -> None:
    with DataLoader({"n": Numbers(COUNT)}, buckets=BUCKETS) as loader:
        drawn(loader, 5)
        state = loader.state_dict()
    again = Buckets(LENGTHS.astype(np.uint8), tokens=600, multiple_of=2)
    with DataLoader({"n": Numbers(COUNT)}, buckets=again) as loader:
        loader.load_state_dict(state)
        assert drawn(loader, 3) == expected(5, 3)


def test_records_that_are_not_chosen_are_not_drawn() -> None:
    chosen = np.arange(0, COUNT, 3)
    buckets = Buckets(LENGTHS, tokens=600, indices=chosen)
    with DataLoader({"n": Numbers(COUNT)}, buckets=buckets) as loader:
        assert loader.length == len(chosen)
        found = flat(drawn(loader, 2 * loader.steps_per_pass))
        assert len(set(found)) > len(chosen) - buckets.left_over - 1
        assert set(found) <= set(chosen.tolist())


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"batch_size": 4}, ValueError, "batch_size: expected None with buckets, which have their own, found 4"),
        ({"indices": [1]}, ValueError, r"indices: expected None with buckets; Buckets\(indices=...\)"),
        ({"weights": np.ones(COUNT)}, ValueError, "weights: expected None with buckets"),
        ({"mode": 1}, ValueError, "mode: expected cyclic or sequential with buckets, found .*IID"),
        ({"buckets": LENGTHS}, TypeError, "buckets: expected Buckets or None, found ndarray"),
        ({"buckets": Buckets([1, 2], tokens=9)}, ValueError, "buckets: expected lengths of the 700 records, found 2"),
        (
            {"streams": Mixture({"a": {"n": Numbers(COUNT)}})},
            ValueError,
            "buckets: expected None with a Mixture, found Buckets",
        ),
    ],
)
def test_loaders_that_are_refused(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        DataLoader(**{"streams": {"n": Numbers(COUNT)}, "buckets": BUCKETS, **arguments})
