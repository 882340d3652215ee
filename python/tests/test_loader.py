"""The loader as its user sees it. Errors: `test_loader_errors.py`. Resuming: `test_state.py`. Ends: `test_loader_ends.py`."""

from __future__ import annotations

import itertools
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataloader import DataLoader, Mixture
from loaderx.dataset import DenseDataset, MSDataset
from loaderx.sampler import Sampler
from loaderx.utils import from_numpy
from streams import COUNT, IMAGES, TOKENS, steps, unbroken
from support import Array, all_same, same


@pytest.mark.parametrize("mode", Sampler.Mode)
def test_streams_line_up_at_the_samplers_indices(streams: Any, mode: Sampler.Mode) -> None:
    sampler = Sampler(COUNT, 7, mode)
    with DataLoader(streams, batch_size=7, mode=mode) as loader:
        for batch in itertools.islice(loader, 20):
            indices = sampler.next()
            assert list(batch) == ["image", "index", "token"]
            assert same(batch["index"], indices.astype(np.int64))
            assert same(batch["image"], IMAGES[indices])
            assert all_same(batch["token"], [TOKENS[i] for i in indices])


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("prefetch", [1, 3, 9])
def test_order_is_the_samplers_whatever_the_threads_do(streams: Any, workers: int, prefetch: int) -> None:
    delays = itertools.cycle([0, 0.002, 0.0005])

    def transform(batch: Any) -> Any:
        time.sleep(next(delays))
        return batch

    with DataLoader(streams, workers, 5, prefetch, transform=transform) as loader:
        assert steps(loader, 40) == unbroken(40)


def test_defaults(streams: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="256.*23|23.*256"):
        DataLoader(streams)
    from_numpy(tmp_path / "ds", np.arange(300))
    with DataLoader({"x": DenseDataset(tmp_path / "ds")}) as loader:
        assert (loader.batch_size, loader.mode, loader.seed, loader.step, loader.length) == (256, 2, 42, 0, 300)
        batch = next(loader)["x"]
        assert batch.shape == (256,)
        assert batch.flags.writeable
        assert batch.flags.owndata


def test_a_multi_stream_dataset_is_a_set_of_streams(stream_root: Path) -> None:
    with MSDataset(stream_root) as ds, DataLoader(ds, batch_size=5) as loader:
        assert list(loader.streams) == ds.names
        assert steps(loader, 9) == unbroken(9)


def test_anything_with_records_is_a_stream() -> None:
    class Squares:
        def __len__(self) -> int:
            return COUNT

        def __getitems__(self, index: Array) -> Any:
            return index * index

    with DataLoader({"square": Squares()}, batch_size=5) as loader:
        assert [b["square"].tolist() for b in itertools.islice(loader, 4)] == [[i * i for i in b] for b in unbroken(4)]


class Odd:
    """A stream with an attribute that our datasets have, too."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __len__(self) -> int:
        return COUNT

    def __getitems__(self, index: Array) -> Any:
        return index * index


@pytest.mark.parametrize("mixed", [False, True])
def test_attributes_of_a_users_stream_are_its_own(streams: Any, mixed: bool) -> None:
    """A cache, and a wrapper around a dataset of ours; neither says anything about records that were moved."""
    given: Any = {"cache": Odd({}), "wrapper": Odd(streams["index"])}
    given = Mixture({"a": given, "b": given}) if mixed else given
    with DataLoader(given, batch_size=5) as loader:
        state = loader.state_dict()
        assert state["fingerprint"]["generation"] == [0, 0] * (1 + mixed)
        loader.load_state_dict(state)
        assert next(loader)["cache"].shape == (5,)


def test_transform_makes_the_batch(streams: Any) -> None:
    with DataLoader(streams, batch_size=5, transform=lambda batch: int(batch["index"].sum())) as loader:
        assert list(itertools.islice(loader, 6)) == [sum(batch) for batch in unbroken(6)]
    with DataLoader(streams, batch_size=5, transform=lambda batch: None) as loader:
        assert list(itertools.islice(loader, 6)) == [None] * 6


def test_transforms_run_at_once(streams: Any) -> None:
    barrier = threading.Barrier(3, timeout=30)
    with DataLoader(streams, num_workers=3, batch_size=5, transform=lambda batch: barrier.wait()) as loader:
        assert sorted(itertools.islice(loader, 3)) == [0, 1, 2]


def test_many_steps_over_few_records(tmp_path: Path) -> None:
    from_numpy(tmp_path / "ds", np.arange(10), codec="raw")
    sampler = Sampler(10, 3, 2)
    with DenseDataset(tmp_path / "ds") as ds, DataLoader({"x": ds}, num_workers=2, batch_size=3) as loader:
        for batch in itertools.islice(loader, 10_000):
            assert batch["x"].tolist() == sampler.next().tolist()
        assert loader.stats().ready <= 4


def test_several_consumers_share_the_batches(streams: Any) -> None:
    taken: list[list[int]] = []

    def consume() -> None:
        for _ in range(25):
            taken.append(next(loader)["index"].tolist())

    with DataLoader(streams, batch_size=5) as loader:
        threads = [threading.Thread(target=consume) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert loader.step == 100
    assert sorted(taken) == sorted(unbroken(100))


def test_an_iterator_of_itself_without_a_length(streams: Any) -> None:
    with DataLoader(streams, batch_size=5) as loader:
        assert iter(loader) is loader
        with pytest.raises(TypeError, match=r"never ends, so it has no length; loader\.take"):
            len(loader)
        assert loader
        assert repr(loader) == (
            "DataLoader(streams=['image', 'index', 'token'], length=23, batch_size=5, mode=CYCLIC, seed=42, step=0)"
        )
    with pytest.raises(TypeError, match="pickle its datasets and its state_dict"):
        pickle.dumps(loader)


def test_after_close(streams: Any) -> None:
    loader = DataLoader(streams, batch_size=5)
    next(loader)
    loader.close()
    loader.close()
    assert loader.closed
    assert list(loader) == []
    with pytest.raises(StopIteration):
        next(loader)
    assert "closed" in repr(loader)
    never_started = DataLoader(streams, batch_size=5)
    never_started.close()
    assert list(never_started) == []


def test_close_within_the_loop(streams: Any) -> None:
    seen = []
    loader = DataLoader(streams, batch_size=5)
    for batch in loader:
        seen.append(batch)
        if len(seen) == 3:
            loader.close()
    assert len(seen) == 3


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"streams": {}}, ValueError, "streams: expected at least one stream, found none"),
    ({"streams": []}, TypeError, "streams: expected a mapping of names to datasets, found list"),
    (
        {"streams": {"x": 5}},
        TypeError,
        "^streams: 'x': expected a dataset, or what has __len__ and __getitems__, found int$",
    ),
    ({"streams": {"x": np.zeros(9)}}, TypeError, "found ndarray; from_numpy makes a store of an array"),
    ({"batch_size": 0}, ValueError, "batch_size: expected at least 1, found 0"),
    ({"batch_size": -3}, ValueError, "batch_size: expected at least 1, found -3"),
    ({"batch_size": 2.0}, TypeError, "batch_size: expected an integer, found 2.0"),
    ({"batch_size": 24}, ValueError, "24.*23|23.*24"),
    ({"num_workers": 0}, ValueError, "num_workers: expected 1 to 65536, found 0"),
    ({"num_workers": True}, TypeError, "num_workers: expected an integer, found the bool True"),
    ({"num_workers": "4"}, TypeError, "num_workers"),
    ({"prefetch_size": 0}, ValueError, "prefetch_size: expected 1 to 65536, found 0"),
    ({"prefetch_size": None}, TypeError, "prefetch_size"),
    ({"mode": 3}, ValueError, "mode: expected one of"),
    ({"mode": "cyclic"}, TypeError, "mode"),
    ({"seed": -1}, ValueError, "seed: expected at least 0"),
    ({"step": -1}, ValueError, "step: expected 0 to 9223372036854775807, found -1"),
    ({"step": 1.5}, TypeError, "step"),
    ({"step": 2**64}, ValueError, "step"),
    ({"transform": 5}, TypeError, "transform: expected a callable, found 5"),
    ({"transform": None}, TypeError, "transform: expected a callable, found None"),
    ({"timeout": 0}, ValueError, "timeout: expected more than 0 and at most"),
    ({"timeout": float("inf")}, ValueError, "timeout: expected more than 0 and at most"),
    ({"timeout": 10**400}, ValueError, "timeout: expected more than 0 and at most"),
    ({"timeout": "1"}, TypeError, "timeout: expected seconds or None"),
]


@pytest.mark.parametrize(("arguments", "error", "text"), BAD, ids=range(len(BAD)))
def test_bad_arguments(streams: Any, arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        DataLoader(**({"streams": streams, "batch_size": 5} | arguments))


def test_streams_of_unequal_length(streams: Any, tmp_path: Path) -> None:
    from_numpy(tmp_path / "short", np.zeros(3))
    with (
        DenseDataset(tmp_path / "short") as short,
        pytest.raises(
            ValueError, match="equally many records in each, found {'image': 23, 'index': 23, 'token': 23, 'short': 3}"
        ),
    ):
        DataLoader(streams | {"short": short}, batch_size=2)
    with (
        DenseDataset(tmp_path / "none", dtype="i4", item_shape=()) as none,
        pytest.raises(ValueError, match="at least one record, found {'none': 0}"),
    ):
        DataLoader({"none": none}, batch_size=1)


def test_a_batch_larger_than_the_length(streams: Any) -> None:
    with DataLoader(streams, batch_size=30, mode=0) as loader:
        assert steps(loader, 1) == [[*range(23), *range(7)]]
    with DataLoader(streams, batch_size=30, mode=1) as loader:
        assert len(steps(loader, 1)[0]) == 30
