"""Lance: a column of fixed-size binary values, rows taken by number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

PACKAGE = "pylance"
BATCH_BYTES = 16 << 20


def write(path: Path, rows: npt.NDArray[Any], codec: str) -> None:
    size = rows[:1].nbytes
    kind = pa.binary(size)
    schema = pa.schema([("row", kind)])
    step = max(1, BATCH_BYTES // size)

    def batches() -> Iterator[Any]:
        for start in range(0, len(rows), step):
            part = np.ascontiguousarray(rows[start : start + step])
            array = pa.FixedSizeBinaryArray.from_buffers(kind, len(part), [None, pa.py_buffer(part)])
            yield pa.record_batch([array], schema=schema)

    lance.write_dataset(batches(), str(path / "rows"), schema=schema)
    np.save(path / "like.npy", rows[:1])


def open_store(path: Path) -> tuple[Any, npt.NDArray[Any]]:
    return lance.dataset(str(path / "rows")), np.load(path / "like.npy")


def gather(store: tuple[Any, npt.NDArray[Any]], indices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    dataset, like = store
    column = dataset.take(indices).column("row").combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    size = like[:1].nbytes
    packed = np.frombuffer(column.buffers()[1], np.uint8, len(column) * size, column.offset * size)
    return packed.view(like.dtype).reshape(len(indices), *like.shape[1:])


def close(store: tuple[Any, npt.NDArray[Any]]) -> None:
    pass
