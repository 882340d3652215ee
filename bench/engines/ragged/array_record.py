"""ArrayRecord with one record a group; a batch is a list of arrays."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

PACKAGE = "array-record"
Array = npt.NDArray[Any]


def write(path: Path, records: tuple[Array, Array], codec: str) -> None:
    values, offsets = records
    path.mkdir()
    writer = ArrayRecordWriter(str(path / "records"), f"group_size:1,{codec}")
    for start, end in itertools.pairwise(offsets.tolist()):
        writer.write(values[start:end].tobytes())
    writer.close()
    np.save(path / "like.npy", values[:0])


def open_store(path: Path) -> tuple[Any, Array]:
    reader = ArrayRecordReader(str(path / "records"), options="readahead_buffer_size:0")
    return reader, np.load(path / "like.npy")


def gather(store: tuple[Any, Array], indices: Array) -> list[Array]:
    reader, like = store
    return [np.frombuffer(record, like.dtype) for record in reader.read(indices.tolist())]


def close(store: tuple[Any, Array]) -> None:
    store[0].close()
