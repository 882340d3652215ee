"""One container of loaderx 2.8, each part checked before anything is believed of it. `loaderx2_layout` knows the bytes."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from loaderx._core import Frames, empty, read_small_file
from loaderx.converters.formats.loaderx2_layout import (
    DICTIONARY,
    DIM,
    ENTRY,
    META,
    TABLE_AT,
    Table,
    check_entries,
    decode,
)
from loaderx.converters.source import Array, Values
from loaderx.dataset.packed import Packed
from loaderx.generations.layout import BadEntry
from loaderx.generations.source import DICT_LIMIT
from loaderx.older import data_file
from loaderx.zrecord import CorruptStoreError, ZrecordError

WINDOW = 1 << 17
"""Entries of the table that are read at once."""

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.uint64]


class Container:
    """The records of one store. Opening it checks the whole table. It holds no file open.

    Raises:
        CorruptStoreError: header, table or files can't be right.
        OSError: it can't be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with (path / META).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(TABLE_AT)
        try:
            self.header = decode(content)
        except ValueError as error:
            self._fail(META, str(error))
        self.files = [path / META, *(path / data_file(shard) for shard in range(len(self.header.ends)))]
        dictionary = None
        if self.header.codec == "zstd_dict":
            self.files.append(path / DICTIONARY)
            dictionary = self._dictionary()
        self._check_sizes(size)
        self._check_table()
        self._raw = Frames("raw")
        try:
            self._frames = Frames(self.header.codec, dictionary)
        except ValueError as error:
            self._fail(DICTIONARY, str(error))

    def __len__(self) -> int:
        return self.header.count

    def _fail(self, name: str, reason: str) -> NoReturn:
        raise CorruptStoreError(f"{self.path / name}: {reason}")

    def _dictionary(self) -> bytes:
        size = (self.path / DICTIONARY).stat().st_size
        if size > DICT_LIMIT:
            self._fail(DICTIONARY, f"expected at most {DICT_LIMIT} bytes, found {size}")
        return read_small_file(self.path / DICTIONARY)

    def _check_sizes(self, size: int) -> None:
        """Whether the files are as long as the header says."""
        # Not by `len`, which no forged count may be too large for.
        count = self.header.count
        needed = TABLE_AT + ENTRY.itemsize * count
        if size > TABLE_AT and not count:
            self._fail(
                META, "it was never closed: records may be there, but the header doesn't say how many. Write it again"
            )
        if size != needed:
            self._fail(META, f"expected {needed} bytes for {count} records, found {size}")
        for shard, end in enumerate(self.header.ends):
            found = (self.path / data_file(shard)).stat().st_size
            if found < end:
                self._fail(data_file(shard), f"expected {end} bytes, found {found}")

    def _check_table(self) -> None:
        """Whether each entry can be that of a record, and lies behind the one before it in its file: so no two share bytes."""
        before = np.zeros(len(self.header.ends), np.uint64)
        for first, stop in windows(0, len(self)):
            entries = self.entries(first, stop)
            try:
                check_entries(self.header, first, entries, before)
            except BadEntry as error:
                self._fail(META, f"record {first + error.at}: {error}")

    def entries(self, start: int, stop: int) -> Table:
        """The table from record `start` up to `stop`."""
        content = np.empty((stop - start) * ENTRY.itemsize, np.uint8)
        self._read(META, TABLE_AT + start * ENTRY.itemsize, content)
        return content.view(ENTRY)

    def _read(self, name: str, offset: int, into: Bytes) -> None:
        """Fill `into` from a file."""
        descriptor = os.open(self.path / name, os.O_RDONLY)
        try:
            self._fill(name, descriptor, offset, into)
        finally:
            os.close(descriptor)

    def _fill(self, name: str, descriptor: int, offset: int, into: Bytes) -> None:
        rest = into.data
        while rest:
            count = os.preadv(descriptor, [rest], offset)
            if not count:
                self._fail(name, "it was cut while it was read")
            rest, offset = rest[count:], offset + count

    def read(self, first: int, entries: Table) -> Values:
        """The records of `entries`, `first` being the number of the first one."""
        stored, starts, ends = self._stored(first, entries)
        try:
            return (
                self._ragged(first, entries, stored, starts, ends)
                if self.header.item_shape is None
                else self._dense(first, entries, stored, starts, ends)
            )
        except CorruptStoreError:
            raise
        except ZrecordError as error:
            raise CorruptStoreError(f"{self.path}: {error}") from error

    def _stored(self, first: int, entries: Table) -> tuple[Bytes, Places, Places]:
        """What is stored of records, and where each begins and ends in that."""
        count = len(self.header.ends)
        starts, ends = np.empty(len(entries), np.uint64), np.empty(len(entries), np.uint64)
        stored = memory(int(entries["stored"].sum(dtype=np.int64)))
        filled = 0
        for shard in range(count):
            mine = slice((shard - first) % count, None, count)
            some = entries[mine]
            if len(some):
                places = bounds(some["stored"])
                starts[mine], ends[mine] = filled + places[:-1], filled + places[1:]
                self._runs(shard, some, places, stored[filled : filled + int(places[-1])])
                filled += int(places[-1])
        return stored, starts, ends

    def _runs(self, shard: int, entries: Table, places: npt.NDArray[np.int64], into: Bytes) -> None:
        """Read records of one data file, those that lie side by side at once: so far as is known, all of them do."""
        name = data_file(shard)
        offsets = entries["offset"].astype(np.int64)
        gaps = np.flatnonzero(offsets[1:] != offsets[:-1] + entries["stored"][:-1]) + 1
        edges = [0, *gaps.tolist(), len(entries)]
        descriptor = os.open(self.path / name, os.O_RDONLY)
        try:
            for begin, end in itertools.pairwise(edges):
                self._fill(name, descriptor, int(offsets[begin]), into[int(places[begin]) : int(places[end])])
        finally:
            os.close(descriptor)

    def _dense(self, first: int, entries: Table, stored: Bytes, starts: Places, ends: Places) -> Array:
        shape = self.header.item_shape or ()
        places = bounds(entries["length"])
        rows = memory(int(places[-1]))
        self._frames.decode(stored, starts, ends, rows, places.astype(np.uint64), first)
        return rows.view(self.header.dtype).reshape(len(entries), *shape)

    def _ragged(self, first: int, entries: Table, stored: Bytes, starts: Places, ends: Places) -> Packed:
        """Each record is its shape and its items, in one frame where there are frames."""
        prefix, dtype = self.header.prefix, self.header.dtype
        if self.header.codec != "raw":
            places = bounds(entries["length"]).astype(np.uint64)
            whole = memory(int(places[-1]))
            self._frames.decode(stored, starts, ends, whole, places, first)
            stored, starts, ends = whole, places[:-1].copy(), places[1:].copy()
        sizes = entries["length"].astype(np.int64) - prefix
        shapes = stored[starts.astype(np.int64)[:, None] + np.arange(prefix)].view(DIM).reshape(len(entries), -1)
        self._check_shapes(first, shapes, sizes // dtype.itemsize)
        offsets = bounds(sizes)
        values = memory(int(offsets[-1]))
        self._raw.decode(stored, starts + np.uint64(prefix), ends, values, offsets.astype(np.uint64), first)
        listed = None if self.header.rank == 1 else list(map(tuple, shapes.tolist()))
        return Packed(values.view(dtype), offsets // dtype.itemsize, listed)

    def _check_shapes(self, first: int, shapes: npt.NDArray[np.uint32], items: npt.NDArray[np.int64]) -> None:
        """Whether each record has as many items as its shape says."""
        # Whole numbers are exact in floats as far as a record can be long, and products beyond don't wrap.
        bad = np.flatnonzero(np.prod(shapes, axis=1, dtype=np.float64) != items)
        if bad.size:
            at = int(bad[0])
            raise CorruptStoreError(
                f"{self.path}: record {first + at}: expected {items[at]} items, found shape {tuple(shapes[at].tolist())}"
            )


def memory(size: int) -> Bytes:
    """So many bytes, in memory that earlier parts have let go of: the system clears fresh memory, which takes as long as to fill it."""
    return empty((size,), np.dtype(np.uint8))


def bounds(sizes: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Where things of these sizes begin when they lie one behind another, and where the last one ends, shape (n + 1,)."""
    places = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, dtype=np.int64, out=places[1:])
    return places


def windows(start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Ranges of the table, each read at once."""
    for first in range(start, stop, WINDOW):
        yield first, min(first + WINDOW, stop)
