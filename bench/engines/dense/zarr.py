"""zarr-python, uncompressed: chunks of 64 KiB of whole records, at least one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import zarr

PACKAGE = "zarr"
CHUNK_BYTES = 64 << 10


def write(path: Path, rows: npt.NDArray[Any], codec: str) -> None:
    step = max(1, CHUNK_BYTES // rows[:1].nbytes)
    array = zarr.create_array(
        store=str(path), shape=rows.shape, chunks=(step, *rows.shape[1:]), dtype=rows.dtype, compressors=None
    )
    array[:] = rows


def open_store(path: Path) -> Any:
    return zarr.open_array(store=str(path), mode="r")


def gather(store: Any, indices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(store.oindex[indices])


def close(store: Any) -> None:
    pass
