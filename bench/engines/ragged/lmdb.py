"""LMDB: a key a record; a batch is a list of arrays."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import numpy.typing as npt

PACKAGE = "lmdb"
Array = npt.NDArray[Any]
RECORDS_AT_ONCE = 10_000


def key(index: int) -> bytes:
    return int(index).to_bytes(8, "big")


def write(path: Path, records: tuple[Array, Array], codec: str) -> None:
    values, offsets = records
    bounds = list(itertools.pairwise(offsets.tolist()))
    with lmdb.open(str(path), map_size=2 * values.nbytes + 200 * len(bounds) + (64 << 20), writemap=True) as env:
        for first in range(0, len(bounds), RECORDS_AT_ONCE):
            with env.begin(write=True) as txn:
                for i, (start, end) in enumerate(bounds[first : first + RECORDS_AT_ONCE], first):
                    txn.put(key(i), values[start:end].tobytes(), append=True)
    np.save(path / "like.npy", values[:0])


def open_store(path: Path) -> tuple[Any, Array]:
    return lmdb.open(str(path), readonly=True, lock=False, readahead=False), np.load(path / "like.npy")


def gather(store: tuple[Any, Array], indices: Array) -> list[Array]:
    env, like = store
    with env.begin(buffers=True) as txn:
        return [np.frombuffer(txn.get(key(index)), like.dtype).copy() for index in indices.tolist()]


def close(store: tuple[Any, Array]) -> None:
    store[0].close()
