"""The published loaderx 2.x: batches as packed values and offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from loaderx import Allocator
from loaderx.zrecord import RaggedBatch, RaggedStore, RaggedWriter

PACKAGE = "loaderx"
Array = npt.NDArray[Any]


def write(path: Path, records: tuple[Array, Array], codec: str) -> None:
    values, offsets = records
    lengths = np.diff(offsets).astype(np.uint32)[:, None]
    batch = RaggedBatch(np.array(values), offsets.astype(np.int32), lengths)
    with RaggedWriter(path, values.dtype, 1, codec=codec) as writer:
        writer.append(batch)


def open_store(path: Path) -> tuple[Any, Any, Any]:
    store, allocator = RaggedStore(path), Allocator("cpu")
    return store.bind(allocator), store, allocator


def gather(store: tuple[Any, Any, Any], indices: Array) -> tuple[Array, Array]:
    batch = store[0][indices]
    return np.from_dlpack(batch.values), np.from_dlpack(batch.cu_seqlens)


def close(store: tuple[Any, Any, Any]) -> None:
    store[1].close()
    store[2].close()
