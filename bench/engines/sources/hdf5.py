"""Data sets in chunks of some hundred KiB, not compressed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy.typing as npt

PACKAGE = "h5py"
CHUNK = 256


def dense(folder: Path, rows: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Path:
    with h5py.File(folder / "data.h5", "w") as file:
        for name, array in (("images", rows), ("labels", labels)):
            file.create_dataset(name, data=array, chunks=(min(CHUNK, len(array)), *array.shape[1:]))
    return folder / "data.h5"
