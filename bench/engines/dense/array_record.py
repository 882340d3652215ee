"""ArrayRecord with one record a group, as its makers advise for random reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

PACKAGE = "array-record"
OPTIONS = {"uncompressed": "group_size:1,uncompressed", "zstd": "group_size:1,zstd:3"}


def write(path: Path, rows: npt.NDArray[Any], codec: str) -> None:
    path.mkdir()
    writer = ArrayRecordWriter(str(path / "rows"), OPTIONS[codec])
    for row in rows:
        writer.write(row.tobytes())
    writer.close()
    np.save(path / "like.npy", rows[:1])


def open_store(path: Path) -> tuple[Any, npt.NDArray[Any]]:
    # No reading ahead: random batches are all that is asked for.
    reader = ArrayRecordReader(str(path / "rows"), options="readahead_buffer_size:0")
    return reader, np.load(path / "like.npy")


def gather(store: tuple[Any, npt.NDArray[Any]], indices: npt.NDArray[Any]) -> npt.NDArray[Any]:
    reader, like = store
    packed = b"".join(reader.read(indices.tolist()))
    return np.frombuffer(packed, like.dtype).reshape(len(indices), *like.shape[1:])


def close(store: tuple[Any, npt.NDArray[Any]]) -> None:
    store[0].close()
