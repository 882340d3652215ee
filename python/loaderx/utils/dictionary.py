"""Training zstd dictionaries on a sample that is spread over all of the data.

At most the first 128 KiB of a record are sampled, as zstd's own command-line tool does: so large records give enough samples too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from loaderx._core import replace_file
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.dataset.dtypes import contiguous, storable
from loaderx.dataset.foreign import array_of, is_array
from loaderx.dataset.index import Indices
from loaderx.dataset.packed import refuse_packed
from loaderx.dataset.tiers import tier_named
from loaderx.zrecord import PathLike, Zrecord, build_dict

Sample: TypeAlias = npt.NDArray[np.uint8]

SAMPLE_LIMIT = 128 << 10
GATHER_BYTES = 64 << 20
MAX_SAMPLES = 1 << 17
"""Samples of tiny records are as many as this at most, whatever the budget."""
PROBES = 4096
"""Records whose lengths are looked at to find how many fit a budget."""


class Stored(Protocol):
    """Records that can be had by their indices, as those of a store."""

    def __len__(self) -> int: ...
    def lengths(self, idxs: Indices) -> npt.NDArray[np.uint32]:
        """The bytes of each record, shape (n,)."""

    def gather_packed(self, idxs: Indices) -> tuple[Sample, npt.NDArray[np.int64]]:
        """The records one after another, and their byte offsets, shape (n + 1,)."""


def train_dict(
    source: Any,
    tier: str | None = None,
    path: PathLike | None = None,
) -> bytes:
    """Train a zstd dictionary for "zstd_dict" stores on settled, complete data.

    Args:
        source: stacked array (a record a row), an iterable of records (it is read to its end), a dataset or a `Zrecord`. Arrays may be
            those of any package, as for `from_numpy`.
        tier: "fast", "balanced" (default) or "max"; see `loaderx.dataset.DICT_TIERS`.
        path: also write the dictionary to this file.

    Returns:
        The dictionary: `dict_bytes` of `from_numpy` and `from_iterator`, or what `install_dict` takes.

    Raises:
        TypeError: no such source.
        ValueError: unknown tier, or no records.
        ZrecordError: too few or too small records to train on.
    """
    chosen = tier_named(tier)
    dictionary = trained_on(samples_of(source, chosen["samples"]), chosen["size"])
    if path is not None:
        replace_file(path, dictionary)
    return dictionary


def trained_on(samples: Iterable[Sample], size: int) -> bytes:
    """A dictionary of at most `size` bytes. ValueError where there is nothing to train on, ZrecordError where it is too little."""
    filled = [sample for sample in samples if sample.size]
    if not filled:
        raise ValueError("train_dict: expected at least one record with bytes in it, found none")
    return build_dict(np.concatenate(filled), [sample.size for sample in filled], size)


def samples_of(source: Any, budget: int) -> Iterator[Sample]:
    """A sample of about `budget` bytes, spread evenly over the source."""
    refuse_packed(source, "train_dict", "an array, an iterable of records or a dataset")
    if is_array(source):
        return from_array(array_of(source, "train_dict"), budget)
    if isinstance(source, (DenseDataset, RaggedDataset)):
        return from_stored(source._store, budget)
    if isinstance(source, Zrecord):
        return from_stored(source, budget)
    if isinstance(source, MSDataset):
        raise TypeError("train_dict: a dictionary belongs to one stream: give ds[name]")
    if isinstance(source, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(source, Iterable):
        raise TypeError(
            f"train_dict: expected an array, an iterable of records or a dataset, found {type(source).__name__}"
        )
    return iter(from_records(source, budget))


def from_array(array: npt.NDArray[Any], budget: int) -> Iterator[Sample]:
    """Of rows along axis 0; a memory-mapped array is read only where it is sampled."""
    storable(array.dtype)
    if array.ndim == 0:
        raise ValueError("train_dict: expected an array of at least one dimension, found shape ()")
    size = array[:1].nbytes
    for row in spread(len(array), budget // max(1, min(size, SAMPLE_LIMIT))):
        yield as_bytes(array[row, ...])


def from_stored(records: Stored, budget: int) -> Iterator[Sample]:
    """Of records, gathered in blocks of bounded size."""
    return first_bytes(records, sampled(records, budget))


def sampled(records: Stored, budget: int) -> Indices:
    """The indices of a sample of about `budget` bytes, ascending."""
    probes = records.lengths(spread(len(records), PROBES)).astype(np.int64)
    mean = max(1, int(np.minimum(probes, SAMPLE_LIMIT).mean())) if probes.size else 1
    return spread(len(records), budget // mean)


def first_bytes(records: Stored, chosen: Indices) -> Iterator[Sample]:
    """At most the first SAMPLE_LIMIT bytes of each chosen record."""
    lengths = records.lengths(chosen).astype(np.int64)
    blocks = np.cumsum(lengths) // GATHER_BYTES
    for block in np.split(chosen, np.flatnonzero(np.diff(blocks)) + 1):
        packed, starts = records.gather_packed(block)
        for start, end in itertools.pairwise(starts.tolist()):
            yield packed[start : min(end, start + SAMPLE_LIMIT)].copy()


def from_records(records: Iterable[Any], budget: int, limit: int | None = SAMPLE_LIMIT) -> list[Sample]:
    """Of a stream of unknown length: whenever the sample is over the budget, every other record of it goes and the stride doubles.

    Of each the first `limit` bytes, or all.
    """
    kept: list[Sample] = []
    size, stride = 0, 1
    for i, record in enumerate(records):
        if i % stride:
            continue
        sample = as_bytes(record, limit)
        kept.append(sample)
        size += sample.size
        while (size > budget and len(kept) > 1) or len(kept) > MAX_SAMPLES:
            kept = kept[::2]
            size = sum(one.size for one in kept)
            stride *= 2
    return kept


def spread(length: int, count: int) -> npt.NDArray[np.uint64]:
    """About `count` indices (at least one, at most MAX_SAMPLES) at even distances, shape (n,)."""
    count = min(length, max(1, count), MAX_SAMPLES)
    return np.linspace(0, length - 1, count).astype(np.uint64) if count else np.empty(0, np.uint64)


def as_bytes(record: Any, limit: int | None = SAMPLE_LIMIT) -> Sample:
    """A copy of the first `limit` bytes of a record, or of all."""
    array = array_of(record, "train_dict")
    storable(array.dtype)
    # A record that is not contiguous is copied whole: its first bytes are not together.
    return np.array(contiguous(array).reshape(-1).view(np.uint8)[:limit])
