from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataset import DICT_TIERS, DenseDataset, MSDataset, RaggedDataset
from loaderx.utils import dictionary, from_iterator, from_numpy, train_dict
from loaderx.utils.dictionary import MAX_SAMPLES, SAMPLE_LIMIT, samples_of, spread
from loaderx.zrecord import ZrecordError
from support import images

DATA = images(3000)


def test_tiers() -> None:
    assert DICT_TIERS == {
        "fast": {"size": 32 << 10, "samples": 4 << 20},
        "balanced": {"size": 128 << 10, "samples": 16 << 20},
        "max": {"size": 1 << 20, "samples": 64 << 20},
    }


def sources(folder: Path) -> Iterator[tuple[str, Any]]:
    from_numpy(folder / "dense", DATA)
    from_iterator(folder / "ragged", DATA, np.uint8)
    yield "array", DATA
    yield "list", list(DATA)
    yield "generator", (row for row in DATA)
    yield "bytes", [row.tobytes() for row in DATA]
    yield "dense", DenseDataset(folder / "dense")
    yield "ragged", RaggedDataset(folder / "ragged")


def test_every_source_trains_the_same(tmp_path: Path) -> None:
    trained = {name: train_dict(source, tier="fast") for name, source in sources(tmp_path)}
    assert isinstance(trained["array"], bytes)
    assert len(trained["array"]) <= DICT_TIERS["fast"]["size"]
    assert len(set(trained.values())) == 1


def test_path(tmp_path: Path) -> None:
    trained = train_dict(DATA, "fast", tmp_path / "dictionary")
    assert (tmp_path / "dictionary").read_bytes() == trained
    assert [path.name for path in tmp_path.iterdir()] == ["dictionary"]


def test_it_helps(tmp_path: Path) -> None:
    from_numpy(tmp_path / "plain", DATA)
    from_numpy(tmp_path / "trained", DATA, codec="zstd_dict", dict_bytes=train_dict(DATA))
    plain, trained = DenseDataset(tmp_path / "plain").stats(), DenseDataset(tmp_path / "trained").stats()
    assert trained["live_bytes"] < plain["live_bytes"]


def test_the_sample_is_spread_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary, "GATHER_BYTES", 10_000)
    budget = 64 * 100
    for name, source in sources(tmp_path):
        sample = list(samples_of(source, budget))
        assert 50 <= len(sample) <= 101, name
        assert sum(one.size for one in sample) <= budget + 64
        positions = [int(np.flatnonzero((DATA.reshape(-1, 64) == one).all(1))[0]) for one in sample]
        steps = np.diff(positions)
        assert positions[0] == 0
        assert positions[-1] > 2900
        assert steps.max() - steps.min() <= 1, name


def test_large_records_give_their_first_bytes() -> None:
    record = np.arange(SAMPLE_LIMIT, dtype=np.uint32)
    for source in (np.stack([record, record]), [record, record], iter([record, record])):
        sample = list(samples_of(source, 3 * SAMPLE_LIMIT))
        assert [one.size for one in sample] == [SAMPLE_LIMIT] * 2
        assert sample[0].tobytes() == record.tobytes()[:SAMPLE_LIMIT]


def test_ragged_records_of_very_different_sizes(tmp_path: Path) -> None:
    sizes = [10, 100_000, 0, 300_000, 5] * 20
    from_iterator(tmp_path / "ds", (np.full(n, n % 251, np.uint8) for n in sizes), np.uint8)
    sample = list(samples_of(RaggedDataset(tmp_path / "ds"), 1 << 20))
    assert 0 < sum(one.size for one in sample) < 3 << 20
    assert max(one.size for one in sample) <= SAMPLE_LIMIT


def test_a_mapped_array_is_read_where_it_is_sampled(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    mapped = np.memmap(tmp_path / "large", np.uint8, "r", shape=(1 << 20, 1 << 20))
    assert len(list(itertools.islice(samples_of(mapped, 1 << 20), 9))) == 8


def test_spread() -> None:
    assert spread(10, 3).tolist() == [0, 4, 9]
    assert spread(2, 100).tolist() == [0, 1]
    assert spread(5, 0).tolist() == [0]
    assert spread(0, 5).tolist() == []
    assert len(spread(10**9, 10**9)) == MAX_SAMPLES


def test_what_trains_no_dictionary(tmp_path: Path) -> None:
    from_numpy(tmp_path / "multi" / "a", np.zeros(3))
    with DenseDataset(tmp_path / "empty", dtype="u1", item_shape=(4,)) as empty:
        cases: list[tuple[Any, Any, str]] = [
            (np.zeros((0, 3)), ValueError, "at least one record"),
            ([], ValueError, "at least one record"),
            ([b""], ValueError, "at least one record with bytes in it"),
            (np.zeros((3, 0)), ValueError, "at least one record with bytes in it"),
            (empty, ValueError, "at least one record"),
            (np.array(3), ValueError, r"found shape \(\)"),
            (np.array([None]), TypeError, "uint8 records"),
            ([None], TypeError, "uint8 records"),
            (b"abc", TypeError, "found bytes"),
            (5, TypeError, "found int"),
            (MSDataset(tmp_path / "multi"), TypeError, r"one stream: give ds\[name\]"),
            ([b"a"], ZrecordError, "dictionary"),
        ]
        for source, error, text in cases:
            with pytest.raises(error, match=text):
                train_dict(source)


def test_unknown_tier() -> None:
    with pytest.raises(ValueError, match="tier: expected one of fast, balanced, max, found 'huge'"):
        train_dict(DATA, tier="huge")
    with pytest.raises(TypeError, match="tier: expected one of"):
        train_dict(DATA, tier=3)  # type: ignore[arg-type]
