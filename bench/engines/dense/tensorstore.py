"""TensorStore's zarr driver, uncompressed: chunks of 64 KiB of whole records, at least one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorstore

PACKAGE = "tensorstore"
CHUNK_BYTES = 64 << 10


def spec(path: Path) -> dict[str, Any]:
    return {"driver": "zarr", "kvstore": {"driver": "file", "path": str(path)}}


def write(path: Path, rows: npt.NDArray[Any], codec: str) -> None:
    step = max(1, CHUNK_BYTES // rows[:1].nbytes)
    metadata = {
        "shape": list(rows.shape),
        "chunks": [step, *rows.shape[1:]],
        "dtype": rows.dtype.str,
        "compressor": None,
    }
    store = tensorstore.open(spec(path) | {"metadata": metadata}, create=True).result()
    store.write(rows).result()


def open_store(path: Path) -> Any:
    return tensorstore.open(spec(path), open=True, recheck_cached_metadata=False).result()


def gather(store: Any, indices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(store[indices].read().result())


def close(store: Any) -> None:
    pass
