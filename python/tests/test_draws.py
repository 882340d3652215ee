"""The binding's draws: which records a step reads, for one rank."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loaderx import _core

COUNT = 500
U64 = np.dtype(np.uint64)
LAST = 2**63 - 1

Array = np.ndarray[Any, Any]


def numbers(*values: int) -> Array:
    return np.array(values, np.uint64)


def drawn(batch: int = 16, **more: Any) -> _core.Draws:
    return _core.Draws.sampled(COUNT, batch, 2, 42, **more)


def test_draws_are_the_samplers() -> None:
    sampler = _core.Sampler(COUNT, 16, 2, 42)
    draws = drawn()
    assert draws.count == 16
    for step in [0, 1, 77, LAST]:
        indices, sources = draws.draw(step)
        assert sources is None
        assert indices.dtype == U64
        assert np.array_equal(indices, sampler.batch_at(step))
    with pytest.raises(ValueError, match="step"):
        draws.draw(LAST + 1)


@pytest.mark.parametrize("world_size", [1, 3, 16, 20])
def test_ranks_share_a_batch(world_size: int) -> None:
    ranks = [drawn(rank=rank, world_size=world_size) for rank in range(world_size)]
    assert sum(draws.count for draws in ranks) == 16
    parts = [draws.draw(5)[0] for draws in ranks]
    assert np.array_equal(np.concatenate(parts), drawn().draw(5)[0])


@pytest.mark.parametrize("offset", [0, 2**40])
def test_a_table_is_copied(offset: int) -> None:
    table = np.arange(COUNT, dtype=np.uint64)[::-1] + np.uint64(offset)
    draws = drawn(table=np.ascontiguousarray(table))
    expected = table[drawn().draw(3)[0]]
    table[:] = 0
    assert np.array_equal(draws.draw(3)[0], expected)


def test_weights() -> None:
    weights = np.zeros(COUNT)
    weights[[3, 8]] = 1, 3
    draws = _core.Draws.weighted(weights, 100, 7)
    indices, sources = draws.draw(5)
    assert (sources, set(indices)) == (None, {3, 8})
    parts = [_core.Draws.weighted(weights, 100, 7, rank, 3).draw(5)[0] for rank in range(3)]
    assert np.array_equal(np.concatenate(parts), indices)
    table = np.arange(COUNT, dtype=np.uint64) + np.uint64(100)
    assert np.array_equal(_core.Draws.weighted(weights, 100, 7, table=table).draw(5)[0], indices + np.uint64(100))
    for wrong in [np.array([-1.0]), np.array([np.nan]), np.zeros(3), np.zeros(0)]:
        with pytest.raises(ValueError, match=r"\w"):
            _core.Draws.weighted(wrong, 4, 1)


SCHEDULE = [(0, [1.0, 3.0]), (10, [3.0, 1.0])]


def test_mixtures() -> None:
    draws = _core.Draws.mixed([COUNT, 40], 16, 2, 7, SCHEDULE, True)
    for step, share in [(0, 4), (9, 4), (10, 12), (LAST, 12)]:
        indices, sources = draws.draw(step)
        assert sources is not None
        assert (str(sources.dtype), int((sources == 0).sum())) == ("uint32", share)
        assert (indices[sources == 1] < 40).all()
        parts = [_core.Draws.mixed([COUNT, 40], 16, 2, 7, SCHEDULE, True, rank, 3).draw(step) for rank in range(3)]
        assert np.array_equal(np.concatenate([part[0] for part in parts]), indices)
        table = np.arange(40, dtype=np.uint64) + np.uint64(100)
        found, same = _core.Draws.mixed([COUNT, 40], 16, 2, 7, SCHEDULE, True, tables=[None, table]).draw(step)
        assert np.array_equal(found, indices + np.uint64(100) * (sources == 1).astype(np.uint64))
        assert same is not None
        assert np.array_equal(same, sources)
    for wrong in [[], [(1, [1.0, 1.0])], [(0, [1.0])], [(0, [0.0, 0.0])]]:
        with pytest.raises(ValueError, match=r"\w"):
            _core.Draws.mixed([COUNT, 40], 16, 2, 7, wrong)
    with pytest.raises(ValueError, match="tables"):
        _core.Draws.mixed([COUNT, 40], 16, 2, 7, SCHEDULE, tables=[None])


def test_buckets() -> None:
    buckets = [(40, 16), (9, 2)]
    draws = _core.Draws.bucketed(buckets, 2, 7)
    assert draws.count == 16
    pass_of = [draws.draw(step)[0] for step in range(6)]
    assert sorted(len(indices) for indices in pass_of) == [2, 2, 2, 2, 16, 16]
    for step in [0, 1, 5, 77, LAST]:
        indices, sources = draws.draw(step)
        bucket = draws.bucket_at(step)
        assert (sources, len(indices)) == (None, buckets[bucket][1])
        assert ((indices < 40) == (bucket == 0)).all()
        ranks = [_core.Draws.bucketed(buckets, 2, 7, rank, 3) for rank in range(3)]
        assert np.array_equal(np.concatenate([rank.draw(step)[0] for rank in ranks]), indices)
        ends = [0, *(end for rank in ranks for end in rank.places(step)), len(indices)]
        assert ends[::2] == ends[1::2]
        assert [rank.count for rank in ranks] == [5, 5, 6]
        table = np.arange(49, dtype=np.uint64) + np.uint64(100)
        found, _ = _core.Draws.bucketed(buckets, 2, 7, table=table).draw(step)
        assert np.array_equal(found, indices + np.uint64(100))
    with pytest.raises(ValueError, match="step"):
        draws.draw(LAST + 1)
    assert (drawn().bucket_at(3), drawn(rank=1, world_size=2).places(3)) == (0, (8, 16))
    for wrong, mode in [([], 2), ([(4, 5)], 2), ([(4, 0)], 2), ([(4, 2)], 1)]:
        with pytest.raises(ValueError, match=r"\w"):
            _core.Draws.bucketed(wrong, mode, 1)
    with pytest.raises(ValueError, match="table"):
        _core.Draws.bucketed(buckets, 2, 7, table=numbers(1, 2))


def test_draws_that_there_are_not() -> None:
    wrong: list[tuple[int, int, int, dict[str, Any]]] = [
        (0, 1, 0, {}),
        (4, 0, 0, {}),
        (4, 5, 2, {}),
        (4, 2, 9, {}),
        (4, 2, 0, {"rank": 1}),
        (4, 2, 0, {"world_size": 0}),
        (4, 2, 0, {"table": numbers(1, 2, 3)}),
    ]
    for length, batch, mode, more in wrong:
        with pytest.raises(ValueError, match=r"\w"):
            _core.Draws.sampled(length, batch, mode, 1, **more)
