"""Which records are drawn: index tables and weights."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loaderx.dataloader import Buckets, DataLoader, Mixture
from loaderx.dataset import DenseDataset
from loaderx.sampler import Sampler
from loaderx.utils import from_numpy
from numbers_stream import Numbers, drawn, draws, flat


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_table_is_drawn_from_as_a_data_set_of_its_own(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 200))
    table = data.draw(st.lists(st.integers(-length, length - 1), min_size=1, max_size=60))
    batch = data.draw(st.integers(1, len(table)))
    mode, step = data.draw(st.sampled_from(Sampler.Mode)), data.draw(st.integers(0, 10**9))
    sampler = Sampler(len(table), batch, mode, 7)
    expected = [[table[place] % length for place in sampler.batch_at(step + k).tolist()] for k in range(3)]
    assert draws(length, 3, indices=table, batch_size=batch, mode=mode, seed=7, step=step) == expected


def test_a_split_of_a_store_in_every_form(tmp_path: Path) -> None:
    from_numpy(tmp_path / "ds", np.arange(1000))
    with DenseDataset(tmp_path / "ds") as ds:
        mask = np.arange(1000) % 5 == 0
        for indices in (
            mask,
            np.flatnonzero(mask),
            np.flatnonzero(mask).tolist(),
            slice(0, None, 5),
            range(0, 1000, 5),
        ):
            with DataLoader({"n": ds}, batch_size=100, indices=indices) as loader:
                assert loader.length == 200
                assert loader.steps_per_pass == 2
                assert sorted(flat(drawn(loader, 2))) == list(range(0, 1000, 5))


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"indices": []}, ValueError, "indices: expected at least one record, found none"),
        ({"indices": [100]}, IndexError, "100"),
        ({"indices": [-101]}, IndexError, "-101"),
        ({"indices": [0.5]}, TypeError, "selects no records"),
        ({"indices": [1, 2], "batch_size": 3}, ValueError, "3"),
        (
            {"weights": [1.0]},
            ValueError,
            r"weights: expected shape \(100,\), one for each record to draw from, found \(1,\)",
        ),
        ({"weights": np.full(100, np.nan)}, ValueError, "weight"),
        ({"weights": np.full(100, np.inf)}, ValueError, "weight"),
        ({"weights": np.full(100, -1.0)}, ValueError, "weight"),
        ({"weights": np.zeros(100)}, ValueError, "weight"),
        ({"weights": ["a"] * 100}, TypeError, "weights: expected numbers, found dtype"),
        ({"weights": np.ma.masked_equal(np.arange(100), 3)}, TypeError, "weights: a masked array, whose mask"),
        ({"indices": np.ma.masked_equal(np.arange(100), 3)}, TypeError, "indices: a masked array, whose mask"),
        ({"indices": np.ma.masked_equal(np.arange(100) > 9, True)}, TypeError, "indices: a masked array, whose mask"),
        ({"weights": np.ones(100), "mode": 2}, ValueError, "mode: expected .*IID.* or None with weights, found 2"),
    ],
)
def test_choices_that_are_refused(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        DataLoader({"n": Numbers(100)}, **{"batch_size": 2, **arguments})


def test_masked_indices_are_refused_wherever_they_go(tmp_path: Path) -> None:
    masked = np.ma.masked_equal(np.arange(10), 3)
    from_numpy(tmp_path / "ds", np.arange(10))
    with (
        DenseDataset(tmp_path / "ds") as ds,
        pytest.raises(TypeError, match="index: a masked array, whose mask would be ignored"),
    ):
        ds[masked]
    with pytest.raises(TypeError, match="indices: a masked array"):
        Buckets(np.arange(10), tokens=100, indices=masked)
    with pytest.raises(TypeError, match="indices: 'a': a masked array"):
        DataLoader(Mixture({"a": {"n": Numbers(10)}}, indices={"a": masked}), batch_size=2)
    with pytest.raises(TypeError, match="bounds: expected a list of integers"):
        Buckets(np.arange(10), tokens=100, bounds=masked[1:])


def test_weights_are_kept_and_zero_is_never_drawn() -> None:
    weights = np.array([0, 1, 2, 0, 4, 1])
    counts = Counter(flat(draws(6, 200, weights=weights, batch_size=400)))
    assert set(counts) == {1, 2, 4, 5}
    for record, count in counts.items():
        expected = 80_000 * weights[record] / 8
        assert abs(count - expected) < 5 * expected**0.5


def test_weights_go_with_the_entries_of_a_table() -> None:
    counts = Counter(flat(draws(100, 50, indices=[7, 90, 7], weights=[1, 0, 2], batch_size=10)))
    assert counts == {7: 500}


def test_a_weighted_loader_resumes_and_has_ranks() -> None:
    options: dict[str, Any] = {"weights": np.arange(50), "batch_size": 12}
    run = draws(50, 9, **options)
    assert draws(50, 4, step=5, **options) == run[5:]
    parts = [draws(50, 9, rank=rank, world_size=3, **options) for rank in range(3)]
    assert [flat(part[k] for part in parts) for k in range(9)] == run


def test_a_state_is_refused_where_other_records_are_drawn() -> None:
    choices: list[dict[str, Any]] = [
        {},
        {"indices": range(50)},
        {"indices": range(50)[::-1]},
        {"mode": 1, "weights": np.ones(50)},
        {"mode": 1, "weights": np.arange(50)},
    ]
    states = []
    for choice in choices:
        with DataLoader({"n": Numbers(50)}, batch_size=5, **choice) as loader:
            states.append(json.loads(json.dumps(loader.state_dict())))
    for i, choice in enumerate(choices):
        for j, state in enumerate(states):
            with DataLoader({"n": Numbers(50)}, batch_size=5, **choice) as loader:
                if i == j:
                    loader.load_state_dict(state)
                    continue
                with pytest.raises(ValueError, match=r"state: (mode|fingerprint: selection): expected this loader's"):
                    loader.load_state_dict(state)
