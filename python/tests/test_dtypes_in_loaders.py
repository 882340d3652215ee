"""Batches of every kind of dtype, made in each of the ways that a loader has, are the records of the stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from dtype_samples import bits, random_array
from loaderx.dataloader import DataLoader, Mixture
from loaderx.dataset import MSDataset, Packed
from loaderx.utils import from_iterator, from_numpy
from support import Array

PADDED = np.dtype({"names": ["a", "b"], "formats": ["u1", ">f8"], "offsets": [3, 8], "itemsize": 20})
DTYPES = {
    "padded": PADDED,
    "nested": np.dtype([("w", ml_dtypes.bfloat16, (2,)), ("in", PADDED), ("t", ">U2")]),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "int4": np.dtype(ml_dtypes.int4),
    "time": np.dtype(">M8[ns]"),
    "text": np.dtype("S3"),
    "void": np.dtype("V3"),
    "big": np.dtype(">i4"),
}
COUNT = 24


def rows_of(name: str) -> Array:
    return random_array(DTYPES[name], (COUNT, 2), 1)


def record_of(name: str, i: int) -> Array:
    return random_array(DTYPES[name], (i % 5,) if i % 3 else (2, 1 + i % 2), i)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dtypes")
    for name, dtype in DTYPES.items():
        from_numpy(folder / f"dense-{name}", rows_of(name), codec="raw")
        from_iterator(folder / f"ragged-{name}", [record_of(name, i) for i in range(COUNT)], dtype)
    from_numpy(folder / "index", np.arange(COUNT))
    return folder


@pytest.fixture
def streams(directory: Path) -> Iterator[MSDataset]:
    with MSDataset(directory, read_only=True) as opened:
        yield opened


def identity(batch: Any) -> Any:
    return batch


def check(batch: Any) -> None:
    index = batch["index"].tolist()
    for name, dtype in DTYPES.items():
        dense, ragged = batch[f"dense-{name}"], batch[f"ragged-{name}"]
        assert dense.dtype == dtype
        item = len(bits(rows_of(name))) // COUNT
        whole = bits(rows_of(name))
        assert bits(dense) == b"".join(whole[i * item : (i + 1) * item] for i in index), name
        records = [record_of(name, i) for i in index]
        if isinstance(ragged, Packed):
            assert ragged.values.dtype == dtype
            assert bits(ragged.values) == b"".join(map(bits, records)), name
            assert ragged.shapes == [record.shape for record in records]
        else:
            assert all(record.dtype == dtype for record in ragged)
            assert [(bits(record), record.shape) for record in ragged] == [(bits(r), r.shape) for r in records], name


@pytest.mark.parametrize("ragged", ["list", "packed"])
@pytest.mark.parametrize("way", ["native", "thread", "process"])
def test_each_way_to_make_a_batch(streams: MSDataset, way: str, ragged: Any) -> None:
    options: dict[str, Any] = {} if way == "native" else {"transform": identity, "worker_type": way}
    with DataLoader(streams, num_workers=2, batch_size=7, ragged=ragged, **options) as loader:
        for batch in loader.take(8):
            check(batch)


class Apart:
    """A stream that the native gather doesn't know."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __len__(self) -> int:
        return len(self.stream)

    def __getitems__(self, index: Any) -> Any:
        return self.stream.__getitems__(index)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("ragged", ["list", "packed"])
def test_a_mixture(streams: MSDataset, ragged: Any, native: bool) -> None:
    given = dict(streams.streams) if native else {name: Apart(stream) for name, stream in streams.streams.items()}
    mixture = Mixture({"a": given, "b": given}, weights={"a": 0.5, "b": 0.5})
    with DataLoader(mixture, num_workers=2, batch_size=7, ragged=ragged) as loader:
        for batch in loader.take(8):
            check(batch)


def test_a_state_is_of_one_dtype(tmp_path: Path) -> None:
    """A void is as wide as a bfloat16, and NumPy's short name of both is the same."""
    weights = np.arange(8).astype(ml_dtypes.bfloat16)
    from_numpy(tmp_path / "a" / "x", weights)
    from_numpy(tmp_path / "b" / "x", weights.view("V2"))
    first, second = MSDataset(tmp_path / "a", read_only=True), MSDataset(tmp_path / "b", read_only=True)
    with first, second, DataLoader(first, batch_size=2) as loader, DataLoader(second, batch_size=2) as other:
        state = loader.state_dict()
        with pytest.raises(ValueError, match="schema"):
            other.load_state_dict(state)
    with pytest.raises(ValueError, match=r"stream 'x': expected .*bfloat16.* found .*\|V2"):
        DataLoader(Mixture({"a": MSDataset(tmp_path / "a"), "b": MSDataset(tmp_path / "b")}), batch_size=2)
