"""Blosc2: one array in a file, compressed with zstd, blocks of whole records, a fancy index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import blosc2
import numpy as np
import numpy.typing as npt

PACKAGE = "blosc2"
BLOCK_BYTES = 64 << 10
CHUNK_BYTES = 1 << 20


def write(path: Path, rows: npt.NDArray[Any], codec: str) -> None:
    path.mkdir()
    size, shape = rows[:1].nbytes, rows.shape[1:]
    block, chunk = (min(len(rows), max(1, limit // size)) for limit in (BLOCK_BYTES, CHUNK_BYTES))
    chunk -= chunk % block
    blosc2.asarray(
        np.ascontiguousarray(rows),
        urlpath=str(path / "rows.b2nd"),
        chunks=(chunk, *shape),
        blocks=(block, *shape),
        cparams={"codec": blosc2.Codec.ZSTD, "clevel": 1},
    )


def open_store(path: Path) -> Any:
    return blosc2.open(str(path / "rows.b2nd"), mode="r")


def gather(store: Any, indices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(store[indices])


def close(store: Any) -> None:
    pass
