"""The streams of a loader: those of one data set, or of several that are mixed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from loaderx._core import Rows, Store
from loaderx.dataloader.mixture import Mixture
from loaderx.dataset import DenseDataset, MSDataset, Packed, RaggedDataset
from loaderx.dataset.dtypes import opaque, voids
from loaderx.dataset.spelling import spelled

Indices = npt.NDArray[np.uint64]
Ragged = Literal["list", "packed"]


class Stream(Protocol):
    """What a loader reads: a dataset, or anything with a length that returns record sets.

    Several threads of a loader call `__getitems__` at once, so it must be safe for that.
    """

    def __len__(self) -> int: ...
    def __getitems__(self, index: Indices, /) -> Any: ...


class Sources(NamedTuple):
    """Streams, for each data set under the same names."""

    components: list[dict[str, Stream]]
    labels: list[str]
    """How messages call the data sets."""
    lengths: list[int]
    """Records of each data set, as of now."""

    @property
    def names(self) -> list[str]:
        """The names of the streams."""
        return list(self.components[0])

    def of(self, name: str) -> list[Stream]:
        """The stream of a name in each data set."""
        return [component[name] for component in self.components]

    def schema(self) -> str:
        """A digest of what the batches are made of: names, kinds, dtypes and shapes of the streams."""
        described = [[name, described_stream(stream)] for name, stream in self.components[0].items()]
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]

    def generations(self) -> list[int]:
        """How often records of each stream were moved."""
        return [generation(stream) for component in self.components for stream in component.values()]


def sources_of(streams: Mapping[str, Stream] | MSDataset | Mixture) -> Sources:
    """What the argument of a loader holds. TypeError for what is no stream, ValueError for streams that don't belong together."""
    if isinstance(streams, Mixture):
        components = {
            label: checked_streams(given, f"components: {label!r}") for label, given in streams.components.items()
        }
    else:
        components = {"streams": checked_streams(streams, "streams")}
    lengths = [common_length(given, label) for label, given in components.items()]
    first_label, first = next(iter(components.items()))
    for label, given in components.items():
        check_alike(first, given, first_label, label)
        components[label] = {name: given[name] for name in first}
    return Sources(list(components.values()), list(components), lengths)


def checked_streams(streams: object, what: str) -> dict[str, Stream]:
    """The streams as a dict. TypeError for what is no stream."""
    if isinstance(streams, MSDataset):
        return dict(streams.streams)
    if not isinstance(streams, Mapping):
        raise TypeError(f"{what}: expected a mapping of names to datasets, found {type(streams).__name__}")
    for name, stream in streams.items():
        if not isinstance(name, str):
            raise TypeError(f"{what}: expected names, found {name!r}")
        if not (hasattr(stream, "__len__") and hasattr(stream, "__getitems__")):
            advice = "; from_numpy makes a store of an array" if isinstance(stream, np.ndarray) else ""
            raise TypeError(
                f"{what}: {name!r}: expected a dataset, or what has __len__ and __getitems__, found {type(stream).__name__}{advice}"
            )
    return dict(streams)


def common_length(streams: Mapping[str, Stream], what: str) -> int:
    """The length that all streams have. ValueError if there is none."""
    lengths = {name: len(stream) for name, stream in streams.items()}
    if not lengths:
        raise ValueError(f"{what}: expected at least one stream, found none")
    if len(set(lengths.values())) != 1:
        raise ValueError(f"{what}: expected equally many records in each, found {lengths}")
    length = next(iter(lengths.values()))
    if length == 0:
        raise ValueError(f"{what}: expected at least one record, found {lengths}")
    return length


def check_alike(first: Mapping[str, Stream], other: Mapping[str, Stream], first_label: str, label: str) -> None:
    """ValueError unless records of both may stand in one batch."""
    if set(first) != set(other):
        raise ValueError(
            f"components: expected streams of the same names in each, found {list(first)} in {first_label!r} and {list(other)} in {label!r}"
        )
    for name in first:
        expected, found = described_stream(first[name]), described_stream(other[name])
        if expected != found:
            raise ValueError(
                f"components: stream {name!r}: expected {expected} as in {first_label!r}, found {found} in {label!r}"
            )


def generation(stream: Stream) -> int:
    """How often records of a stream were moved; 0 for one that is not ours, whatever its attributes are called."""
    return stream._store.generation if isinstance(stream, (DenseDataset, RaggedDataset)) else 0


def described_stream(stream: Stream) -> list[Any]:
    """Kind, dtype and item shape of a stream, as far as it says."""
    if isinstance(stream, DenseDataset):
        return ["dense", spelled(stream.dtype), list(stream.item_shape)]
    if isinstance(stream, RaggedDataset):
        return ["ragged", spelled(stream.dtype)]
    return ["other"]


def native(streams: list[Stream]) -> list[Rows | Store] | None:
    """What the native gather needs of one name's streams; None where they must be read through Python."""
    readers: list[Rows | Store] = []
    for stream in streams:
        # A subclass may read in a way of its own.
        if type(stream) is DenseDataset:
            readers.append(stream._rows)
        elif type(stream) is RaggedDataset and stream._schema.shapes is None:
            readers.append(stream._store._core)
        else:
            return None
    return readers


def row_bytes(stream: Stream) -> int | None:
    """The bytes of each record, None where they are not known."""
    # A subclass may read in a way of its own.
    return stream.dtype.itemsize * math.prod(stream.item_shape) if type(stream) is DenseDataset else None


def read(streams: list[Stream], ragged: Ragged, indices: Indices, sources: npt.NDArray[np.uint32] | None) -> Any:
    """Records `indices` of the streams that `sources` says, through Python."""
    if sources is None or not len(indices):
        return read_one(streams[0], ragged, indices)
    parts = {}
    for number in np.unique(sources).tolist():
        places = np.flatnonzero(sources == number)
        parts[number] = places, read_one(streams[number], "list", indices[places])
    batch = merged(parts, len(indices))
    is_ragged = ragged == "packed" and isinstance(streams[0], RaggedDataset)
    return packed(batch) if is_ragged else batch


def read_one(stream: Stream, ragged: Ragged, indices: Indices) -> Any:
    """Records `indices` of one stream."""
    if ragged == "packed" and isinstance(stream, RaggedDataset):
        return stream.packed(indices)
    return stream.__getitems__(indices)


def merged(parts: Mapping[int, tuple[npt.NDArray[np.intp], Any]], count: int) -> Any:
    """One batch of the record sets of several streams, each with its places. ValueError for arrays that don't fit together."""
    if all(isinstance(records, np.ndarray) for _, records in parts.values()):
        _, first = next(iter(parts.values()))
        for _, records in parts.values():
            if records.dtype != first.dtype or records.shape[1:] != first.shape[1:]:
                expected, found = f"{first.dtype} {first.shape[1:]}", f"{records.dtype} {records.shape[1:]}"
                raise ValueError(
                    f"records of one stream in several data sets: expected {expected} in all, found {found}"
                )
        rows = np.empty((count, *first.shape[1:]), first.dtype)
        for places, records in parts.values():
            opaque(rows)[places] = opaque(records)
        return rows
    batch: list[Any] = [None] * count
    for places, records in parts.values():
        for place, record in zip(places.tolist(), records, strict=True):
            batch[place] = record
    return batch


def packed(records: list[npt.NDArray[Any]]) -> Packed:
    """Records as one array after another."""
    offsets = np.zeros(len(records) + 1, np.int64)
    np.cumsum([record.size for record in records], out=offsets[1:])
    shapes = None if all(record.ndim == 1 for record in records) else [record.shape for record in records]
    values = np.concatenate([voids(record.reshape(-1)) for record in records])
    return Packed(values.view(records[0].dtype), offsets, shapes)
