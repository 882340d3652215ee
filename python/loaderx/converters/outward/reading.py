"""The records of streams in batches, which are cut by what the records take."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx.converters.formats.pieces import steps
from loaderx.converters.source import Array
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.dataset.packed import Packed
from loaderx.dataset.streams import Stream

WINDOW = 1 << 18
"""The lengths of so many records are looked up at once."""
PLACE = 64
"""About how many bytes a ragged record takes in a batch beside its values: for its offset, and perhaps its shape."""


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
    """All records in their order, each batch with its first record's number.

    The streams together have at most PART_BYTES in a batch, or it is one record of each.
    """
    length = min(len(stream) for stream in streams.values())
    for first in range(0, length, WINDOW):
        window = slice(first, min(length, first + WINDOW))
        sizes = np.sum([sizes_of(stream, window) for stream in streams.values()], axis=0)
        for start, stop in steps(sizes, 0, WINDOW):
            yield first + start, read(streams, slice(first + start, first + stop))


def sizes_of(stream: Stream, window: slice) -> npt.NDArray[np.int64]:
    """About how many bytes each record of a range takes in a batch."""
    if isinstance(stream, RaggedDataset):
        return stream.lengths(window).astype(np.int64) + PLACE
    return np.full(window.stop - window.start, math.prod(stream.item_shape) * stream.dtype.itemsize, np.int64)


def read(streams: Mapping[str, Stream], rows: slice) -> dict[str, Array | Packed]:
    """A range of records of every stream."""
    return {
        name: stream.packed(rows) if isinstance(stream, RaggedDataset) else stream[rows]
        for name, stream in streams.items()
    }
