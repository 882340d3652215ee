from __future__ import annotations

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from loaderx.sampler import ORDER_VERSION, Sampler


def test_modes() -> None:
    assert (Sampler.Mode.SEQUENTIAL, Sampler.Mode.IID, Sampler.Mode.CYCLIC) == (0, 1, 2)
    assert Sampler(10, 3, 0).mode is Sampler.Mode.SEQUENTIAL
    assert ORDER_VERSION >= 1


def test_sequential_is_a_circle() -> None:
    assert [batch.tolist() for batch in itertools.islice(Sampler(5, 2, Sampler.Mode.SEQUENTIAL), 4)] == [
        [0, 1],
        [2, 3],
        [4, 0],
        [1, 2],
    ]


def test_a_batch_is_the_callers_own() -> None:
    batch = Sampler(10, 4, 2).next()
    assert batch.dtype == np.uint64
    assert batch.shape == (4,)
    assert batch.flags.owndata
    assert batch.flags.writeable


def test_cyclic_draws_each_index_once_a_cycle() -> None:
    sampler = Sampler(10, 5, Sampler.Mode.CYCLIC, seed=1)
    cycles = [sorted(np.concatenate([sampler.next(), sampler.next()]).tolist()) for _ in range(3)]
    assert cycles == [list(range(10))] * 3


@pytest.mark.parametrize("mode", Sampler.Mode)
def test_a_step_is_a_function_of_seed_and_step(mode: Sampler.Mode) -> None:
    run = [batch.tolist() for batch in itertools.islice(Sampler(11, 3, mode, seed=5), 20)]
    again = Sampler(11, 3, int(mode), seed=5)
    for step in (19, 0, 7, 3, 4):
        again.seek(step)
        assert again.step == step
        assert again.next().tolist() == run[step]
        assert again.step == step + 1
        assert again.batch_at(step).tolist() == run[step]
    if mode != Sampler.Mode.SEQUENTIAL:
        assert [batch.tolist() for batch in itertools.islice(Sampler(11, 3, mode, seed=6), 20)] != run


@pytest.mark.parametrize("mode", [Sampler.Mode.SEQUENTIAL, Sampler.Mode.CYCLIC])
def test_next_draw(mode: Sampler.Mode) -> None:
    sampler = Sampler(11, 3, mode)
    for index, start in [(0, 0), (10, 2), (4, 9)]:
        draw = sampler.next_draw(index, start)
        assert draw is not None
        step, place = draw
        assert sampler.batch_at(step)[place] == index
        assert not any(index in sampler.batch_at(s) for s in range(start, step))
    assert Sampler(11, 3, Sampler.Mode.IID).next_draw(0, 0) is None
    with pytest.raises(IndexError, match="11"):
        sampler.next_draw(11, 0)


def test_a_huge_space() -> None:
    sampler = Sampler(2**40, 8, 2)
    sampler.seek(10**12)
    assert sampler.next().max() < 2**40


@pytest.mark.parametrize("mode", [Sampler.Mode.SEQUENTIAL, Sampler.Mode.IID])
def test_short_and_long_batches_are_one_stream(mode: Sampler.Mode) -> None:
    # Batches of up to 8,192 are made with the interpreter held, longer ones without it.
    whole = Sampler(1_000_000, 3 * 8193, mode).next().tolist()
    for size in (8193, 3, 2731):
        parts = itertools.islice(Sampler(1_000_000, size, mode), 3 * 8193 // size)
        assert np.concatenate(list(parts)).tolist() == whole


def test_a_batch_without_memory_for_it_takes_no_step() -> None:
    sampler = Sampler(2**62, 2**59, Sampler.Mode.IID)
    with pytest.raises((MemoryError, ValueError)):
        sampler.next()
    assert sampler.step == 0


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((0, 1, 0), ValueError, "length: expected at least 1, found 0"),
        ((5, 0, 0), ValueError, "batch_size: expected at least 1, found 0"),
        ((5, 6, 2), ValueError, "6.*5|5.*6"),
        ((5, 1, 3), ValueError, "mode: expected one of .*CYCLIC.*found 3"),
        ((5, 1, 0, -1), ValueError, "seed: expected at least 0, found -1"),
        ((5, 1, 0, 2**64), ValueError, "seed"),
        ((5.0, 1, 0), TypeError, "length: expected an integer, found 5.0"),
        ((5, True, 0), TypeError, "batch_size"),
        ((5, 1, "cyclic"), TypeError, "mode"),
        ((5, 1, 0, None), TypeError, "seed"),
    ],
)
def test_bad_arguments(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Sampler(*arguments)


def test_bad_steps() -> None:
    sampler = Sampler(5, 2, 0)
    for step, error in [(-1, ValueError), (1.5, TypeError), (2**64, ValueError)]:
        with pytest.raises(error, match="step"):
            sampler.seek(step)  # type: ignore[arg-type]
        with pytest.raises(error, match="step"):
            sampler.batch_at(step)  # type: ignore[arg-type]
    assert sampler.step == 0


def test_copies_go_on_where_they_stand() -> None:
    sampler = Sampler(100, 7, 2, seed=3)
    sampler.seek(5)
    for twin in (copy.copy(sampler), pickle.loads(pickle.dumps(sampler))):
        assert repr(twin) == repr(sampler) == "Sampler(length=100, batch_size=7, mode=CYCLIC, seed=3, step=5)"
        assert twin.next().tolist() == sampler.batch_at(5).tolist()
