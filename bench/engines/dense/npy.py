"""NumPy's own format, memory-mapped, with a fancy index: what a user has without any store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PACKAGE = "numpy"


def write(path: Path, rows: npt.NDArray[Any], codec: str) -> None:
    path.mkdir()
    np.save(path / "rows.npy", rows)


def open_store(path: Path) -> npt.NDArray[Any]:
    rows: npt.NDArray[Any] = np.load(path / "rows.npy", mmap_mode="r")
    return rows


def gather(store: npt.NDArray[Any], indices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    batch: npt.NDArray[Any] = store[indices]
    return batch


def close(store: npt.NDArray[Any]) -> None:
    pass
