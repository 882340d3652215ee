"""The records of streams, a few MiB at a time."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loaderx.converters.source import PART_BYTES, Array
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.dataset.packed import Packed
from loaderx.dataset.streams import Stream

FIRST_ROWS = 64
GROWTH = 4


def package(name: str, who: str) -> Any:
    """The module of a package. ImportError that names it where it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"{who} needs the package {name}: pip install {name} ({error})", name=name) from error


def streams_of(ds: Any, columns: Sequence[str] | None) -> dict[str, Stream]:
    """The streams that are meant. TypeError for what is no dataset, ValueError for streams that it doesn't have."""
    if isinstance(ds, (DenseDataset, RaggedDataset)):
        if columns is not None:
            raise ValueError(f"columns: this is one store, {ds.path}, and has no streams")
        return {"value": ds}
    if not isinstance(ds, MSDataset):
        raise TypeError(f"expected a DenseDataset, RaggedDataset or MSDataset, found {type(ds).__name__}")
    wanted = ds.names if columns is None else list(columns)
    unknown = [name for name in wanted if name not in ds]
    if unknown or not wanted:
        raise ValueError(f"columns: expected some of {ds.names}, found {unknown}")
    return {name: ds[name] for name in wanted}


def batches(streams: Mapping[str, Stream]) -> Iterator[tuple[int, dict[str, Array | Packed]]]:
    """All records in their order, each batch with its first record's number."""
    length = min(len(stream) for stream in streams.values())
    start, rows = 0, FIRST_ROWS
    while start < length:
        stop = min(length, start + rows)
        batch: dict[str, Array | Packed] = {
            name: stream.packed(slice(start, stop)) if isinstance(stream, RaggedDataset) else stream[start:stop]
            for name, stream in streams.items()
        }
        yield start, batch
        size = sum(values.values.nbytes if isinstance(values, Packed) else values.nbytes for values in batch.values())
        rows = max(1, min(rows * GROWTH, (stop - start) * PART_BYTES // max(1, size)))
        start = stop
