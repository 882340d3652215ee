"""Data sources for grain. A `DenseDataset` or a `RaggedDataset` is one as it is; several streams are one by `Source`.

grain itself is not needed here: a source of its is anything with a length and integers as indices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex

from loaderx.dataset import MSDataset

__all__ = ["Source"]


class Source:
    """The records of several streams: `source[i]` is `{name: record i of that stream}`.

    It pickles with its datasets, so grain's worker processes open them for themselves.

    Args:
        streams: an MSDataset, or name -> dataset, all of one length.

    Raises:
        ValueError: no streams, or streams of unequal length.
    """

    def __init__(self, streams: MSDataset | Mapping[str, Any]) -> None:
        # The MSDataset is kept: its streams would not be its own any more in another process.
        self._whole = streams
        self._streams = dict(streams.streams if isinstance(streams, MSDataset) else streams)
        lengths = {name: len(stream) for name, stream in self._streams.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"streams: expected at least one, and equally many records in each, found {lengths}")
        self._length = next(iter(lengths.values()))

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: SupportsIndex) -> dict[str, Any]:
        number = index.__index__()
        return {name: stream[number] for name, stream in self._streams.items()}

    def __repr__(self) -> str:
        return f"Source(streams={list(self._streams)}, len={self._length})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Source, (self._whole,)
