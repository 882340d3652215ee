"""A loaderx: this project's or the published 1.5.7, whichever this interpreter imports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy, train_dict

PACKAGE = "loaderx"


def write(path: Path, rows: npt.NDArray[Any], codec: str) -> None:
    dictionary = train_dict(rows) if codec == "zstd_dict" else None
    from_numpy(path, rows, codec=codec, dict_bytes=dictionary)


def open_store(path: Path, **how: Any) -> DenseDataset:
    return DenseDataset(path, **how)


def gather(store: DenseDataset, indices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    batch: npt.NDArray[Any] = store[indices]
    return batch


def close(store: DenseDataset) -> None:
    store.close()
