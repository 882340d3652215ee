"""LMDB: a key a record, values read through its memory map."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import numpy.typing as npt

PACKAGE = "lmdb"
RECORDS_AT_ONCE = 10_000


def key(index: int) -> bytes:
    return int(index).to_bytes(8, "big")


def write(path: Path, rows: npt.NDArray[Any], codec: str) -> None:
    size = 2 * rows.nbytes + 200 * len(rows) + (64 << 20)
    with lmdb.open(str(path), map_size=size, writemap=True) as env:
        for start in range(0, len(rows), RECORDS_AT_ONCE):
            with env.begin(write=True) as txn:
                for i in range(start, min(start + RECORDS_AT_ONCE, len(rows))):
                    txn.put(key(i), rows[i].tobytes(), append=True)
    np.save(path / "like.npy", rows[:1])


def open_store(path: Path) -> tuple[Any, npt.NDArray[Any]]:
    env = lmdb.open(str(path), readonly=True, lock=False, readahead=False)
    return env, np.load(path / "like.npy")


def gather(store: tuple[Any, npt.NDArray[Any]], indices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    env, like = store
    batch = np.empty((len(indices), *like.shape[1:]), like.dtype)
    target = batch.reshape(len(indices), -1).view(np.uint8)
    with env.begin(buffers=True) as txn:
        for row, index in zip(target, indices.tolist(), strict=True):
            row[:] = np.frombuffer(txn.get(key(index)), np.uint8)
    return batch


def close(store: tuple[Any, npt.NDArray[Any]]) -> None:
    store[0].close()
