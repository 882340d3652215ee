"""Records to exchange."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

DENSE = {
    "label": ("<i8", ()),
    "flag": ("|b1", ()),
    "byte-image": ("|u1", (8, 8)),
    "tokens": ("<i4", (33,)),
    "skeleton": ("<f4", (3, 7, 5, 2)),
    "half": ("<f2", (5,)),
    "complex": ("<c16", (2, 3)),
    "big-endian": (">i4", (4,)),
    "time": ("<M8[s]", (2,)),
    "text": ("|S5", (3,)),
}

RAGGED_SHAPES: dict[str, list[tuple[int, ...]]] = {
    "one-dimensional": [(n,) for n in (3, 1, 40, 1, 5, 17, 2, 300, 8, 9)],
    "mixed-rank": [(3,), (2, 2), (1, 2, 3), (1,), (5, 1), (40, 3), (2, 1, 1, 2), (7,), (6, 6), (1, 1)],
}


def dense_rows(dtype: str, shape: tuple[int, ...], count: int, seed: int = 0) -> npt.NDArray[Any]:
    """Rows that compress a little: each byte is drawn from a few values, and shared runs give a dictionary work."""
    kind = np.dtype(dtype)
    rng = np.random.default_rng(seed)
    size = count * int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    data = np.where(rng.random(size) < 0.7, rng.integers(0, 4, size), rng.integers(0, 256, size)).astype(np.uint8)
    if kind.kind == "b":
        data &= 1
    if kind.kind == "S":
        data = data % 26 + ord("a")
    return data.view(kind).reshape(count, *shape)


def ragged_records(name: str, dtype: str = "<i4", seed: int = 0) -> list[npt.NDArray[Any]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 50, shape).astype(dtype) for shape in RAGGED_SHAPES[name]]


def stack(records: Sequence[npt.NDArray[Any]], like: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The records as one array with the dtype (byte order too) and item shape of `like`."""
    return np.array(records, like.dtype).reshape(len(records), *like.shape[1:])


def file_bytes(store: Path, name: str, limit: int = 1 << 20) -> bytes:
    with (store / name).open("rb") as file:
        return file.read(limit)
