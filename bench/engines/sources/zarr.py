"""Arrays in chunks of some hundred KiB, compressed as by default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
import zarr

PACKAGE = "zarr"
CHUNK = 1024


def dense(folder: Path, rows: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Path:
    group = zarr.open_group(folder / "data.zarr", mode="w")
    for name, array in (("images", rows), ("labels", labels)):
        made = group.create_array(
            name, shape=array.shape, chunks=(min(CHUNK, len(array)), *array.shape[1:]), dtype=array.dtype
        )
        made[:] = array
    return folder / "data.zarr"
