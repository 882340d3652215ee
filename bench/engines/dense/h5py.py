"""HDF5: one contiguous data set, rows read one by one into the batch, scalars by a sorted fancy index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

PACKAGE = "h5py"


def write(path: Path, rows: npt.NDArray[Any], codec: str) -> None:
    path.mkdir()
    with h5py.File(path / "rows.h5", "w") as file:
        file.create_dataset("rows", data=rows)


def open_store(path: Path) -> tuple[Any, Any]:
    file = h5py.File(path / "rows.h5", "r")
    return file["rows"], file


def gather(store: tuple[Any, Any], indices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    rows = store[0]
    if rows.ndim == 1:
        order = np.unique(indices, return_inverse=True)
        scalars: npt.NDArray[Any] = rows[order[0]][order[1]]
        return scalars
    batch = np.empty((len(indices), *rows.shape[1:]), rows.dtype)
    for place, index in enumerate(indices.tolist()):
        batch[place] = rows[index]
    return batch


def close(store: tuple[Any, Any]) -> None:
    store[1].close()
