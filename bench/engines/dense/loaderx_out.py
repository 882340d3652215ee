"""This project's loaderx into the caller's own array: nothing is allocated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from loaderx.dataset import DenseDataset

PACKAGE = "loaderx"


class Store:
    def __init__(self, dataset: DenseDataset) -> None:
        self.dataset = dataset
        self.out: npt.NDArray[Any] | None = None


def open_store(path: Path, **how: Any) -> Store:
    return Store(DenseDataset(path, **how))


def gather(store: Store, indices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if store.out is None or len(store.out) != len(indices):
        store.out = np.empty((len(indices), *store.dataset.item_shape), store.dataset.dtype)
    return store.dataset.gather(indices, out=store.out)


def close(store: Store) -> None:
    store.dataset.close()
