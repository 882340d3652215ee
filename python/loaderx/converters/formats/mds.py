"""MosaicML's MDS: an index, and shards of samples whose columns lie one after another."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from loaderx.converters.formats.mds_columns import CODES, Column
from loaderx.converters.formats.mds_shards import PACKAGES, Shard, finds, package, shards_of
from loaderx.converters.formats.pieces import Places, gathered, steps, unique_names
from loaderx.converters.formats.ranges import read_range
from loaderx.converters.source import Array, Block, Format, Part
from loaderx.dataset.dtypes import DType
from loaderx.dataset.packed import Packed


class MdsShards:
    """The samples of all shards, in the order of the index."""

    def __init__(self, files: Sequence[Path], *, check_hashes: bool = True) -> None:
        self._shards = [shard for index in files for shard in shards_of(index)]
        if not self._shards:
            raise ValueError(f"{files[0]}: expected at least one shard, found none")
        self._checked = check_hashes
        self._columns = self._shards[0].columns
        for shard in self._shards:
            if list(shard.columns) != list(self._columns):
                raise ValueError(
                    f"{shard.file}: expected the columns of {self._shards[0].file}, found others: {shard.columns}"
                )
        self.files = [*files, *(shard.file for shard in self._shards)]
        for shard in self._shards:
            if not shard.read_raw and shard.compression in PACKAGES:
                package(shard.compression)
        self._specs = {column.name: column.spec(self._dtype(column)) for column in self._columns}
        unique_names(list(self._specs.values()))
        hopeless = {column.name: column.refused for column in self._columns if column.refused}
        self.refused = {self._specs[name].name: f"{files[0]}: {why}" for name, why in hopeless.items()}
        self.streams = [spec for name, spec in self._specs.items() if name not in hopeless]

    def _dtype(self, column: Column) -> DType | None:
        """The dtype of arrays that say it themselves: that of the first sample."""
        if column.parsed[:2] != ("array", None):
            return None
        shard = next((shard for shard in self._shards if shard.samples), None)
        if shard is None:
            return None
        content = None if shard.read_raw else shard.whole(self._checked)
        value = split(sample_range(shard, content, 0, 1), self._columns, {column.name})[column.name]
        code = int(value.values[0]) if len(value.values) else -1
        if code not in CODES:
            raise ValueError(
                f"{shard.file}: sample 0, column {column.name!r}: expected an array, found one with the dtype {code}"
            )
        return np.dtype(CODES[code])

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(shard.samples for shard in self._shards)

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """Whole shards where they are compressed or have hashes to check, else ranges of their samples."""
        for shard in self._shards:
            first, start = min(start, shard.samples), max(0, start - shard.samples)
            if first == shard.samples > 0:
                continue
            if shard.read_raw and not (self._checked and shard.raw.hashes):
                for a, b in steps(np.diff(table(shard)), first):
                    yield partial(self._block, shard, names, a, b, whole=False)
            else:
                yield partial(self._block, shard, names, first, shard.samples, whole=True)

    def _block(self, shard: Shard, names: Sequence[str], first: int, stop: int, whole: bool) -> Block:
        content = shard.whole(self._checked) if whole else None
        wanted = [column for column in self._columns if self._specs[column.name].name in names]
        samples = sample_range(shard, content, first, stop)
        pieces = split(samples, self._columns, {column.name for column in wanted})
        block: Block = {}
        for column in wanted:
            spec = self._specs[column.name]
            block[spec.name] = column.read(pieces[column.name], spec, partial(place_of, shard, first, column))
        return block

    def close(self) -> None:
        """Nothing is open between parts."""


class Samples(NamedTuple):
    """Neighbouring samples of a shard."""

    shard: Shard
    first: int
    content: Array
    starts: Places
    ends: Places


def table(shard: Shard) -> Places:
    """Where the samples of a shard begin that isn't compressed, and the last ends."""
    size = shard.file.stat().st_size
    if size != shard.raw.size:
        raise ValueError(f"{shard.file}: expected {shard.raw.size} bytes, as the index says, found {size}")
    return shard.offsets(read_range(shard.file, 0, min(size, 4 * (shard.samples + 2))))


def sample_range(shard: Shard, content: Array | None, first: int, stop: int) -> Samples:
    """Some samples, of the content of a shard, or read now."""
    if content is not None:
        offsets, low = shard.offsets(content), 0
    else:
        offsets = table(shard)
        low = int(offsets[first])
        content = read_range(shard.file, low, int(offsets[stop]) - low)
    return Samples(shard, first, content, offsets[first:stop] - low, offsets[first + 1 : stop + 1] - low)


def split(samples: Samples, columns: Sequence[Column], wanted: Container[str]) -> dict[str, Packed]:
    """The bytes of each column that is wanted. ValueError for a sample whose columns don't fill it."""
    varying = [column for column in columns if column.size is None]
    head = 4 * len(varying)
    short = samples.ends - samples.starts < head
    sizes = dict.fromkeys((column.name for column in varying), np.zeros(0, np.int64))
    if not short.any() and head:
        rows = samples.content[samples.starts[:, None] + np.arange(head)]
        words = np.ascontiguousarray(rows).view("<u4").astype(np.int64)
        sizes = {column.name: words[:, at] for at, column in enumerate(varying)}
    at = samples.starts + head
    places: dict[str, tuple[Places, Places]] = {}
    for column in () if short.any() else columns:
        size = sizes[column.name] if column.size is None else np.full(len(at), column.size, np.int64)
        places[column.name] = at, size
        at = at + size
    wrong = np.flatnonzero(short | (at != samples.ends))
    if len(wrong):
        raise ValueError(
            f"{samples.shard.file}: sample {samples.first + int(wrong[0])}: its columns don't fill its bytes"
        )
    return {name: gathered(samples.content, starts, size) for name, (starts, size) in places.items() if name in wanted}


def place_of(shard: Shard, first: int, column: Column, at: int) -> str:
    """A value, for messages."""
    return f"{shard.file}: sample {first + at}, column {column.name!r}"


FORMAT = Format("mds", "MosaicML MDS shards", finds, MdsShards)
