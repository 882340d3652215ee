"""This project's loaderx: batches as packed values and offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
from loaderx.dataset import RaggedDataset

PACKAGE = "loaderx"
Array = npt.NDArray[Any]


def open_store(path: Path, **how: Any) -> RaggedDataset:
    return RaggedDataset(path, read_only=True, **how)


def gather(store: RaggedDataset, indices: Array) -> tuple[Array, Array]:
    values, offsets, _ = store.packed(indices)
    return values, offsets


def close(store: RaggedDataset) -> None:
    store.close()
