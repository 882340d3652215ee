"""Packed values in a memory-mapped .npy, records picked with one fancy index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PACKAGE = "numpy"
Array = npt.NDArray[Any]


def write(path: Path, records: tuple[Array, Array], codec: str) -> None:
    path.mkdir()
    np.save(path / "values.npy", records[0])
    np.save(path / "offsets.npy", records[1])


def open_store(path: Path) -> tuple[Array, Array]:
    return np.load(path / "values.npy", mmap_mode="r"), np.load(path / "offsets.npy", mmap_mode="r")


def gather(store: tuple[Array, Array], indices: Array) -> tuple[Array, Array]:
    values, offsets = store
    starts = offsets[indices]
    lengths = offsets[indices + 1] - starts
    packed = np.zeros(len(indices) + 1, np.int64)
    np.cumsum(lengths, out=packed[1:])
    places = np.arange(packed[-1]) + np.repeat(starts - packed[:-1], lengths)
    return values[places], packed


def close(store: tuple[Array, Array]) -> None:
    pass
