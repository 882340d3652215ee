"""Several data sets by share."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loaderx.dataloader import DataLoader, Mixture
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.sampler import Sampler
from loaderx.utils import from_iterator, from_numpy
from numbers_stream import Numbers, drawn, flat
from support import all_same, same

FAR = 10**6


def mixed(lengths: list[int], weights: list[float] | None, **options: Any) -> Mixture:
    """Data sets "0", "1", ... whose records are their numbers, each set's from its own million on."""
    components = {str(k): {"n": Numbers(length, k * FAR)} for k, length in enumerate(lengths)}
    named = None if weights is None else {str(k): weight for k, weight in enumerate(weights)}
    return Mixture(components, named, **options)


def run(mixture: Mixture, count: int, **options: Any) -> list[list[int]]:
    with DataLoader(mixture, 1, prefetch_size=1, **options) as loader:
        return drawn(loader, count)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_shares_hold_over_any_run_of_steps(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 5))
    lengths = data.draw(st.lists(st.integers(1, 200), min_size=count, max_size=count))
    weights = data.draw(st.lists(st.floats(0, 100), min_size=count, max_size=count).filter(any))
    batch, step = data.draw(st.integers(1, 17)), data.draw(st.integers(0, 10**6))
    mode = data.draw(st.sampled_from(Sampler.Mode))
    loader = DataLoader(mixed(lengths, weights), 1, batch, 1, step=step, mode=mode)
    with loader:
        batches = drawn(loader, 40)
    assert all(len(found) == batch for found in batches)
    total: Counter[int] = Counter()
    # Counted between two steps: each end is off by half a tree's depth at most.
    most = (count - 1).bit_length() + 1e-6
    for number, found in enumerate(batches, 1):
        total.update(record // FAR for record in found)
        for k, weight in enumerate(weights):
            assert abs(total[k] - number * batch * weight / sum(weights)) <= most
            assert weight or not total[k]


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_each_data_set_is_walked_as_if_alone(data: st.DataObject) -> None:
    """Cyclic: after any step, no record of a data set was drawn twice more often than another."""
    lengths = data.draw(st.lists(st.integers(1, 20), min_size=2, max_size=4))
    weights = [1.0 + k for k in range(len(lengths))]
    counts: list[Counter[int]] = [Counter() for _ in lengths]
    for batch in run(mixed(lengths, weights), 60, batch_size=data.draw(st.integers(1, 17))):
        for record in batch:
            counts[record // FAR][record % FAR] += 1
        for k, length in enumerate(lengths):
            assert max(counts[k].values(), default=0) - min(counts[k][i] for i in range(length)) <= 1


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_resume_and_ranks(data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 50), min_size=1, max_size=3))
    world, batch = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 17))
    schedule = {3: {str(k): float(1 + k) for k in range(len(lengths))}}
    mixture = mixed(lengths, None, schedule=schedule)
    whole = run(mixture, 8, batch_size=batch)
    cut = data.draw(st.integers(0, 7))
    assert run(mixture, 8 - cut, batch_size=batch, step=cut) == whole[cut:]
    parts = [run(mixture, 8, batch_size=batch, rank=r, world_size=world, uneven=True) for r in range(world)]
    assert [flat(part[k] for part in parts) for k in range(8)] == whole


def test_exact_shares() -> None:
    for batch in run(mixed([100, 10, 5], [5, 3, 2], exact=True), 20, batch_size=10):
        assert Counter(record // FAR for record in batch) == {0: 5, 1: 3, 2: 2}
    with pytest.raises(ValueError, match="3"):
        DataLoader(mixed([100, 10], [1, 2], exact=True), batch_size=10)


def test_a_schedule_changes_the_weights_at_its_steps() -> None:
    schedule = {4: {"0": 0.0, "1": 1.0}, 6: {"0": 1.0, "1": 0.0}}
    batches = run(mixed([100, 100], [1, 1], schedule=schedule), 9, batch_size=10)
    shares = [Counter(record // FAR for record in batch)[0] for batch in batches]
    assert shares == [5, 5, 5, 5, 0, 0, 10, 10, 10]


def test_without_weights_shares_follow_the_lengths() -> None:
    batches = run(mixed([300, 100], None), 10, batch_size=40)
    assert [Counter(record // FAR for record in batch)[0] for batch in batches] == [30] * 10


def test_records_of_a_batch_are_mixed() -> None:
    """No rank sees one data set alone, step after step."""
    parts = [run(mixed([1000, 1000], [1, 1]), 50, batch_size=8, rank=r, world_size=2) for r in range(2)]
    for part in parts:
        share = sum(record < FAR for batch in part for record in batch) / 200
        assert 0.3 < share < 0.7


def test_tables_of_a_mixture() -> None:
    mixture = mixed([100, 100], [1, 1], indices={"1": [5, 7]})
    records = flat(run(mixture, 20, batch_size=10))
    assert {record for record in records if record >= FAR} == {FAR + 5, FAR + 7}
    assert len({record for record in records if record < FAR}) == 100


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Two data sets of three streams, dense and ragged; record i of set k says (k, i)."""
    components: dict[str, dict[str, Any]] = {}
    for k, length in enumerate((40, 7)):
        root = tmp_path / str(k)
        from_numpy(root / "id", np.array([(k, i) for i in range(length)]), "raw")
        from_numpy(root / "image", np.array([np.full((3, 5), 50 * k + i) for i in range(length)], np.uint8))
        from_iterator(root / "token", [np.full(1 + (i + k) % 4, 50 * k + i) for i in range(length)], np.int64)
        from_iterator(root / "shaped", [np.full((i % 3, 2), 50 * k + i) for i in range(length)], np.int64)
        components[str(k)] = {
            "id": DenseDataset(root / "id"),
            "image": DenseDataset(root / "image"),
            "token": RaggedDataset(root / "token"),
            "shaped": RaggedDataset(root / "shaped"),
        }
    return components


@pytest.mark.parametrize("ragged", ["list", "packed"])
@pytest.mark.parametrize("batch_size", [1, 9, 64])
def test_streams_of_a_mixture_line_up(stores: dict[str, dict[str, Any]], ragged: Any, batch_size: int) -> None:
    with DataLoader(Mixture(stores, {"0": 2, "1": 1}), batch_size=batch_size, ragged=ragged) as loader:
        for batch in loader.take(20):
            ids = [tuple(record) for record in batch["id"].tolist()]
            assert len(ids) == batch_size
            assert same(batch["image"], np.array([np.full((3, 5), 50 * k + i) for k, i in ids], np.uint8))
            tokens = [np.full(1 + (i + k) % 4, 50 * k + i) for k, i in ids]
            shaped = [np.full((i % 3, 2), 50 * k + i) for k, i in ids]
            if ragged == "list":
                assert all_same(batch["token"], tokens)
                assert all_same(batch["shaped"], shaped)
                continue
            assert same(batch["token"].values, np.concatenate(tokens))
            assert same(batch["token"].offsets, np.cumsum([0, *map(len, tokens)]))
            assert batch["token"].shapes is None
            assert same(batch["shaped"].values, np.concatenate([record.reshape(-1) for record in shaped]))
            assert batch["shaped"].shapes == [record.shape for record in shaped]


class Halves(Numbers):
    """Records of another dtype."""

    def __getitems__(self, indices: Any) -> Any:
        return super().__getitems__(indices) / 2


def test_the_names_and_the_order_of_data_sets_count() -> None:
    """They share a seed by their place, so the same sets in another order give other batches."""
    sets = {"a": {"n": Numbers(50)}, "b": {"n": Numbers(50)}}
    with DataLoader(Mixture(sets, {"a": 1, "b": 1}), batch_size=10) as loader:
        state = loader.state_dict()
    for other in ({"b": sets["b"], "a": sets["a"]}, {"a": sets["a"], "c": sets["b"]}):
        loader = DataLoader(Mixture(other, dict.fromkeys(other, 1)), batch_size=10)
        with loader, pytest.raises(ValueError, match="state: fingerprint: selection"):
            loader.load_state_dict(state)


def test_a_state_of_many_data_sets_is_small() -> None:
    with DataLoader(mixed([5] * 200, None), batch_size=10) as loader:
        state = loader.state_dict()
        assert len(json.dumps(state)) < 1024
        loader.load_state_dict(json.loads(json.dumps(state)))


def test_a_state_is_of_its_mixture() -> None:
    mixtures = [
        mixed([50, 40], [1, 1]),
        mixed([50, 40], [1, 2]),
        mixed([50, 40], [1, 1], exact=True),
        mixed([50, 40], [1, 1], schedule={9: {"0": 1, "1": 0}}),
        mixed([50, 41], [1, 1]),
    ]
    states = []
    for mixture in mixtures:
        with DataLoader(mixture, batch_size=10) as loader:
            states.append(json.loads(json.dumps(loader.state_dict())))
    for i, mixture in enumerate(mixtures):
        for j, state in enumerate(states):
            with DataLoader(mixture, batch_size=10) as loader:
                if i == j:
                    loader.load_state_dict(state)
                    continue
                with pytest.raises(ValueError, match="state: fingerprint: (length|selection): expected this loader's"):
                    loader.load_state_dict(state)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Mixture({}), ValueError, "components: expected at least one data set, found none"),
        (lambda: Mixture([1]), TypeError, "components: expected a mapping of names to streams, found list"),  # type: ignore[arg-type]
        (lambda: mixed([1, 1], [1, -1]), ValueError, "weights: '1': expected a finite number of at least 0, found -1"),
        (lambda: mixed([1, 1], [0, 0]), ValueError, "weights: expected a weight above 0, found"),
        (lambda: mixed([1, 1], [1]), ValueError, r"weights: expected a weight for each of .*missing: \['1'\]"),
        (lambda: mixed([1], [1], schedule={1: {"x": 1}}), ValueError, r"schedule: step 1: .*unknown: \['x'\]"),
        (lambda: mixed([1], [1], schedule={-1: {"0": 1}}), ValueError, "schedule: step: expected at least 0, found -1"),
        (
            lambda: mixed([1], [1], indices=[1, 2]),
            TypeError,
            "indices: expected a mapping of names to records, found list",
        ),
        (lambda: mixed([1], [1], indices=[]), TypeError, "indices: expected a mapping of names to records, found list"),
        (lambda: mixed([1], [1], exact="no"), TypeError, "exact: expected True or False, found 'no'"),
        (lambda: mixed([1, 1], [1, True]), TypeError, "weights: '1': expected a number, found True"),
        (lambda: mixed([1, 1], [1, "3"]), TypeError, "weights: '1': expected a number, found '3'"),  # type: ignore[list-item]
        (
            lambda: mixed([1, 1], [1, 10**400]),
            ValueError,
            "weights: '1': expected a finite number of at least 0, found inf",
        ),
        (lambda: mixed([1], [1], schedule={1: {"0": False}}), TypeError, "schedule: step 1: '0': expected a number"),
        (lambda: mixed([1], [1], indices={"x": [0]}), ValueError, "indices: expected names of"),
    ],
)
def test_mixtures_that_are_refused(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_weights_of_every_kind_of_number() -> None:
    mixture = mixed([9, 9, 9], [np.float32(1), np.int64(2), Fraction(1, 2)])  # type: ignore[list-item]
    assert mixture.weights == {"0": 1.0, "1": 2.0, "2": 0.5}


def test_an_error_says_of_which_data_set_the_records_are() -> None:
    def fail(batch: Any) -> Any:
        raise ValueError("mine")

    with (
        DataLoader(mixed([50, 40], [3, 1]), 1, 9, transform=fail) as loader,
        pytest.raises(ValueError, match="mine") as caught,
    ):
        next(loader)
    records = run(mixed([50, 40], [3, 1]), 1, batch_size=9)[0]
    shown = ", ".join(f"{record % FAR} of '{record // FAR}'" for record in records[:8])
    if hasattr(caught.value, "__notes__"):
        assert caught.value.__notes__ == [f"at step 0 of the DataLoader, records [{shown}, ... (9 in all)]"]
    with DataLoader(mixed([50], [3]), 1, 2, transform=fail) as loader, pytest.raises(ValueError, match="mine"):
        next(loader)  # an only data set needs no name


def test_data_sets_that_do_not_fit_together(stores: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    left = {"id": stores["0"]["id"]}
    from_numpy(tmp_path / "other", np.zeros((4, 3)))
    for right, text in (
        ({"x": stores["1"]["id"]}, "expected streams of the same names in each"),
        (
            {"id": DenseDataset(tmp_path / "other")},
            "components: stream 'id': expected .*dense.* as in 'a', found .* in 'b'",
        ),
        ({"id": stores["1"]["token"]}, "components: stream 'id': expected .*dense.* found .*ragged"),
    ):
        with pytest.raises(ValueError, match=text):
            DataLoader(Mixture({"a": left, "b": right}), batch_size=2)
    unlike = {"a": {"n": Numbers(10)}, "b": {"n": Halves(10)}}
    loader = DataLoader(Mixture(unlike, {"a": 1, "b": 1}), batch_size=4)
    text = "records of one stream in several data sets: expected .* in all, found"
    with loader, pytest.raises(ValueError, match=text):
        next(loader)
    with pytest.raises(ValueError, match="weights: expected None with a Mixture"):
        DataLoader(Mixture({"a": left}), batch_size=2, weights=[1])
