"""A loaderx: this project's or a published one, whichever this interpreter imports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy


def write(path: Path, rows: np.ndarray, codec: str) -> None:
    from_numpy(path, rows, codec=codec)


def open_store(path: Path) -> DenseDataset:
    return DenseDataset(path)


def gather(store: DenseDataset, indices: np.ndarray) -> np.ndarray:
    batch: np.ndarray = store[indices]
    return batch


def close(store: DenseDataset) -> None:
    store.close()
