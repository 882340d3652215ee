"""How records of like length are put into buckets: the laws, and a naive twin. In loaders: `test_buckets_loader.py`."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loaderx import Buckets, RaggedDataset, Sampler, from_iterator
from loaderx.dataloader.cutting import by_length

LENGTHS = st.one_of(
    st.lists(st.integers(0, 12), min_size=1, max_size=300),
    st.lists(st.integers(0, 2**20), min_size=1, max_size=60),
    st.lists(st.one_of(st.integers(0, 40), st.just(2**63), st.integers(2**32 - 2, 2**32 + 2)), min_size=1, max_size=40),
    st.builds(lambda length, count: [length] * count, st.integers(0, 2**40), st.integers(1, 200)),
)


@st.composite
def made(draw: st.DrawFn) -> tuple[list[int], dict[str, Any]]:
    """Lengths, and arguments that fit them."""
    lengths = draw(LENGTHS)
    longest, multiple = max([1, *lengths]), draw(st.integers(1, min(4, len(lengths))))
    options: dict[str, Any] = {"multiple_of": multiple, "growth": draw(st.sampled_from([1.01, 1.125, 1.5, 4.0]))}
    if draw(st.booleans()):
        tokens = longest * multiple * draw(st.integers(1, 9)) + draw(st.integers(0, longest))
        options["tokens"] = max(min(tokens, 2**64 - 1), longest)
        options["multiple_of"] = min(multiple, options["tokens"] // longest)
    else:
        options["batch_size"] = multiple * draw(st.integers(1, len(lengths) // multiple))
    if draw(st.booleans()):
        below = draw(st.sets(st.integers(1, longest), max_size=8))
        options["bounds"] = sorted(below | {longest})
    return lengths, options


# All that the second bucket keeps has come from the first.
MOVED = [10] * 15 + [12] * 2 + [20] * 90, {"tokens": 100, "multiple_of": 5, "growth": 1.125}


@settings(max_examples=300, deadline=None)
@given(made())
@example(MOVED)
def test_the_laws_of_buckets(case: tuple[list[int], dict[str, Any]]) -> None:
    lengths, options = case
    buckets = Buckets(np.array(lengths, np.uint64), **options)
    assert sorted(buckets.records.tolist()) == list(range(len(lengths)))
    assert len(buckets.bounds) == len(buckets.counts) == len(buckets.batch_sizes)
    assert sorted(buckets.bounds) == list(buckets.bounds)
    start, padded, tokens, broken = 0, 0, 0.0, []
    for bound, count, size in zip(buckets.bounds, buckets.counts, buckets.batch_sizes, strict=True):
        held = [lengths[record] for record in buckets.records[start : start + count].tolist()]
        start += count
        assert max(held) <= bound
        assert 0 < size <= count
        assert size % options["multiple_of"] == 0
        assert size == options.get("batch_size", size)
        assert size * bound <= options.get("tokens", size * bound)
        broken += [(count % size, size)] if count % size else []
        padded += count // size * size * bound
        tokens += count // size * size * sum(held) / count
    assert len(broken) <= 1
    assert buckets.left_over == sum(rest for rest, _ in broken)
    assert buckets.batches == sum(
        count // size for count, size in zip(buckets.counts, buckets.batch_sizes, strict=True)
    )
    assert buckets.padding == pytest.approx(1 - tokens / padded)
    if "bounds" in options:
        assert set(buckets.bounds) <= set(options["bounds"])
        assert len(set(buckets.bounds)) == len(buckets.bounds)


@settings(max_examples=300, deadline=None)
@given(made())
def test_a_naive_twin(case: tuple[list[int], dict[str, Any]]) -> None:
    lengths, options = case
    buckets = Buckets(np.array(lengths, np.uint64), **options)
    start, found = 0, []
    for count, size in zip(buckets.counts, buckets.batch_sizes, strict=True):
        found.append((size, buckets.records[start : start + count].tolist()))
        start += count
    assert found == twin(lengths, **options)


def twin(
    lengths: list[int],
    *,
    multiple_of: int,
    growth: float,
    tokens: int = 0,
    batch_size: int = 0,
    bounds: list[int] | None = None,
) -> list[tuple[int, list[int]]]:
    """The batch size and the records of each bucket, moved about one by one."""
    length_of = [max(length, 1) for length in lengths]
    if bounds is None:
        bounds = [max(length_of)]
        while shorter := [length for length in length_of if length <= int(bounds[0] / growth) and length < bounds[0]]:
            bounds = [max(shorter), *bounds]
    while True:
        held: list[list[int]] = [[] for _ in bounds]
        for record in sorted(range(len(lengths)), key=lambda record: lengths[record]):
            held[[length_of[record] <= bound for bound in bounds].index(True)].append(record)
        sizes = [batch_size or tokens // bound // multiple_of * multiple_of for bound in bounds]
        if len(bounds) == 1:
            size = min(sizes[0], len(lengths) // multiple_of * multiple_of) if tokens else sizes[0]
            return [(size, held[0])]
        batches = [len(records) // size for records, size in zip(held, sizes, strict=True)]
        most = batches.index(max(batches))
        for number in range(most):
            while len(held[number]) % sizes[number]:
                held[number + 1].insert(0, held[number].pop())
        lower = True
        for number in range(len(bounds) - 1, most, -1):
            while lower and len(held[number]) % sizes[number]:
                giver = max((other for other in range(most, number) if held[other]), default=-1)
                lower = giver >= 0
                if lower:
                    held[number].insert(0, held[giver].pop())
        if lower and len(held[most]) >= sizes[most]:
            return [(size, records) for size, records in zip(sizes, held, strict=True) if records]
        bounds = bounds[1:]


@given(LENGTHS)
def test_sorting_by_length(lengths: list[int]) -> None:
    expected = sorted(range(len(lengths)), key=lambda record: lengths[record])
    assert by_length(np.array(lengths, np.uint64)).tolist() == expected


def test_what_is_cut_is_frozen() -> None:
    """A state of one release is refused by the next if these change."""
    lengths = (np.arange(2000) * 7919 % 2003) ** 2 // 8000 + 5
    buckets = Buckets(lengths, tokens=8192, multiple_of=4, growth=1.25)
    assert buckets.bounds == FROZEN["bounds"]
    assert buckets.counts == FROZEN["counts"]
    assert buckets.batch_sizes == FROZEN["batch_sizes"]
    assert int((buckets.records * np.arange(2000, dtype=np.uint64)).sum()) == FROZEN["sum"]
    given = Buckets(lengths, batch_size=48, bounds=[16, 64, 256, 512])
    assert (given.bounds, given.counts) == ((16, 64, 256, 512), FROZEN["given"])


FROZEN: dict[str, Any] = {
    "bounds": (18, 39, 57, 73, 104, 118, 155, 197, 253, 316, 400, 506),
    "counts": (324, 196, 124, 96, 152, 60, 144, 144, 168, 168, 200, 224),
    "batch_sizes": (324, 196, 124, 96, 76, 60, 48, 36, 28, 24, 20, 16),
    "sum": 1998105001,
    "given": (288, 384, 704, 624),
}


def test_one_very_long_record_is_not_alone_and_takes_few_along() -> None:
    lengths = [512] * 10_000 + [100_000]
    buckets = Buckets(lengths, tokens=400_000)
    assert (buckets.bounds, buckets.counts, buckets.batch_sizes) == ((512, 100_000), (9997, 4), (781, 4))
    assert buckets.padding < 0.075
    sizes = Buckets(lengths, batch_size=8)
    assert (sizes.bounds, sizes.counts, sizes.batch_sizes) == ((512, 100_000), (9993, 8), (8, 8))


def test_fewer_records_than_a_batch() -> None:
    assert Buckets([5, 9, 7], tokens=1000).batch_sizes == (3,)
    assert Buckets([5, 9, 7], tokens=1000, multiple_of=2).batch_sizes == (2,)
    assert Buckets([0], tokens=1).batches == 1
    assert Buckets([0], tokens=1).padding == 1
    with pytest.raises(ValueError, match="records for at least one batch of 4, found 3"):
        Buckets([5, 9, 7], tokens=1000, multiple_of=4)
    with pytest.raises(ValueError, match="records for at least one batch of 4, found 3"):
        Buckets([5, 9, 7], batch_size=4)


def test_padding_is_less_than_growth_allows() -> None:
    lengths = np.clip(np.random.default_rng(0).lognormal(5, 0.8, 50_000), 16, 512).astype(int)
    before = 0.0
    for growth in (1.05, 1.125, 1.25, 1.5, 2):
        buckets = Buckets(lengths, tokens=32_768, growth=growth)
        assert before < buckets.padding < 1 - 1 / growth
        before = buckets.padding
    whole = Buckets(lengths, tokens=32_768, bounds=[512])
    assert whole.padding > 0.6


def test_records_that_are_too_long() -> None:
    lengths = [3, 50, 4, 5, 70, 6]
    with pytest.raises(ValueError, match=r"at most 48, .* found 2 longer ones, record 4 of 70 the longest"):
        Buckets(lengths, tokens=48)
    with pytest.raises(ValueError, match=r"at most 24, .* found 2 longer ones"):
        Buckets(lengths, tokens=48, multiple_of=2)
    buckets = Buckets(lengths, tokens=48, too_long="drop")
    assert (buckets.excluded, sorted(buckets.records.tolist()), buckets.length) == (2, [0, 2, 3, 5], 6)
    with pytest.raises(ValueError, match=r"at most 60, .* found 1 longer ones, record 4 of 70"):
        Buckets(lengths, batch_size=2, bounds=[10, 60])
    assert Buckets(lengths, batch_size=2, bounds=[10, 60], too_long="drop").excluded == 1
    with pytest.raises(ValueError, match="leaves them out where others are left"):
        Buckets([70], tokens=48, too_long="drop")


def test_records_that_are_chosen() -> None:
    lengths = np.arange(100)
    buckets = Buckets(lengths, tokens=200, indices=lengths % 3 == 0)
    assert sorted(buckets.records.tolist()) == list(range(0, 100, 3))
    assert buckets.length == 100
    repeated = Buckets(lengths, tokens=200, indices=[7, 7, 9, -1])
    assert sorted(repeated.records.tolist()) == [7, 7, 9, 99]
    with pytest.raises(ValueError, match=r"at most 50, .*record 99 of 99 the longest"):
        Buckets(lengths, tokens=50, indices=[99, 3])
    with pytest.raises(ValueError, match="indices: expected at least one record, found none"):
        Buckets(lengths, tokens=200, indices=[])
    with pytest.raises(IndexError, match="100"):
        Buckets(lengths, tokens=200, indices=[100])


def test_lengths_of_a_ragged_dataset_are_its_items(tmp_path: Path) -> None:
    from_iterator(tmp_path / "tokens", [np.zeros(n, np.int32) for n in (4, 0, 9, 2)], np.int32)
    with RaggedDataset(tmp_path / "tokens", read_only=True) as ds:
        assert Buckets(ds, tokens=9).bounds == Buckets([4, 0, 9, 2], tokens=9).bounds == (2, 9)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({}, ValueError, "tokens, batch_size: expected one of them, found neither"),
        ({"tokens": 9, "batch_size": 1}, ValueError, "tokens, batch_size: expected one of them, found both"),
        ({"tokens": 0}, ValueError, "tokens: expected at least 1, found 0"),
        ({"tokens": 9.0}, TypeError, "tokens: expected an integer, found 9.0"),
        ({"tokens": 9, "multiple_of": 0}, ValueError, "multiple_of: expected at least 1, found 0"),
        ({"batch_size": 3, "multiple_of": 2}, ValueError, "batch_size: expected a multiple of multiple_of=2, found 3"),
        ({"tokens": 9, "lengths": [-1]}, ValueError, "lengths: expected numbers of at least 0, found -1"),
        ({"tokens": 9, "lengths": [0.5]}, TypeError, "lengths: expected integers, found dtype float64"),
        ({"tokens": 9, "lengths": []}, ValueError, "lengths: expected one for each record, found none"),
        ({"tokens": 9, "lengths": [[1]]}, ValueError, "lengths: expected one dimension"),
        ({"tokens": 9, "growth": "1.5"}, TypeError, "growth: expected a number, found '1.5'"),
        ({"tokens": 9, "growth": 1}, ValueError, "growth: expected at least 1.01, found 1"),
        ({"tokens": 9, "growth": float("nan")}, ValueError, "growth: expected at least 1.01, found nan"),
        ({"tokens": 9, "growth": "2x"}, TypeError, "growth: expected a number, found '2x'"),
        ({"tokens": 9, "growth": 10**400}, ValueError, "growth: expected at least 1.01, found 1000"),
        ({"tokens": 9, "lengths": np.ma.array([1, 2], mask=[False, True])}, TypeError, "lengths: a masked array"),
        ({"tokens": 9, "too_long": "cut"}, ValueError, "too_long: expected one of 'error', 'drop', found 'cut'"),
        ({"tokens": 9, "bounds": []}, ValueError, "bounds: expected 1 to 4096, found 0"),
        ({"tokens": 9, "bounds": [4, 4]}, ValueError, "bounds: expected rising ones, found 4 after 4"),
        ({"tokens": 9, "bounds": [0, 4]}, ValueError, "bounds: expected at least 1, found 0"),
        ({"tokens": 9, "bounds": [4, 10]}, ValueError, "bounds: expected at most 9, or tokens=9 are too few"),
        ({"tokens": 9, "bounds": 4}, TypeError, "bounds: expected a list of integers, found 4"),
    ],
)
def test_buckets_that_are_refused(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Buckets(**{"lengths": [1, 2, 3], **arguments})


def test_what_buckets_say_and_that_they_pickle() -> None:
    buckets = Buckets([1, 2, 3, 9], tokens=9, bounds=[3, 9])
    text = (
        "Buckets(4 records in 2 buckets, bounds 3 to 9, batch sizes 3 to 1; "
        "a pass: 2 batches, 0 records left over, 16.7% padding)"
    )
    assert repr(buckets) == repr(pickle.loads(pickle.dumps(buckets))) == text
    for each in (buckets, pickle.loads(pickle.dumps(buckets)), copy.deepcopy(buckets)):
        with pytest.raises(ValueError, match="read-only"):
            each.records[0] = 1


def test_a_sampler_of_buckets() -> None:
    buckets = Buckets(np.arange(200) % 50, tokens=300, multiple_of=2)
    sampler = buckets.sampler(7)
    lengths = np.arange(200) % 50
    for step in [*range(60), 2**40, 2**63 - 1]:
        batch = sampler.batch_at(step)
        assert np.array_equal(batch, buckets.sampler(7).batch_at(step))
        assert lengths[batch].max() <= sampler.bound_at(step)
        assert len(batch) * sampler.bound_at(step) <= 300
        parts = [buckets.sampler(7, rank=rank, world_size=2).batch_at(step) for rank in range(2)]
        assert np.array_equal(np.concatenate(parts), batch)
    assert any(not np.array_equal(sampler.batch_at(step), buckets.sampler(8).batch_at(step)) for step in range(5))
    first = buckets.sampler(mode=Sampler.Mode.SEQUENTIAL)
    assert [first.bound_at(step) for step in range(buckets.batches)] == sorted(
        bound
        for bound, count, size in zip(buckets.bounds, buckets.counts, buckets.batch_sizes, strict=True)
        for _ in range(count // size)
    )
    with pytest.raises(ValueError, match=r"mode: expected cyclic or sequential with buckets, found .*IID"):
        buckets.sampler(mode=Sampler.Mode.IID)
    with pytest.raises(ValueError, match="step"):
        sampler.batch_at(2**63)
