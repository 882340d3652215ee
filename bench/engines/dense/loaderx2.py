"""The published loaderx 2.x: immutable containers that are read through a view bound to an allocator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from loaderx import Allocator
from loaderx.zrecord import DenseStore, DenseWriter

PACKAGE = "loaderx"


def write(path: Path, rows: npt.NDArray[Any], codec: str) -> None:
    with DenseWriter(path, rows.dtype, rows.shape[1:], codec=codec) as writer:
        writer.append(rows)


def open_store(path: Path) -> tuple[Any, Any, Any]:
    store, allocator = DenseStore(path), Allocator("cpu")
    return store.bind(allocator), store, allocator


def gather(store: tuple[Any, Any, Any], indices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.from_dlpack(store[0][indices])


def close(store: tuple[Any, Any, Any]) -> None:
    store[1].close()
    store[2].close()
