"""A store of loaderx 0.5 to 1.4 as a source of records, each checked before anything is believed of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from loaderx._core import read_small_file
from loaderx.closing import Closing
from loaderx.copying.block import BLOCK_RECORDS, Block, cut
from loaderx.dataset.packed import offsets_of
from loaderx.generations.deflate import inflate
from loaderx.generations.layout import (
    COMPRESSED,
    ENTRY,
    HEADER,
    MAX_CHUNK,
    RAW,
    WITH_DICTIONARY,
    BadEntry,
    Header,
    Table,
    check_entries,
    codecs_of,
    decode_header,
)
from loaderx.generations.views import View
from loaderx.zrecord import CorruptRecordError, CorruptStoreError, ZrecordError

Places: TypeAlias = npt.NDArray[np.int64]

DICT_LIMIT = 1 << 28
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
"""No deflate stream begins with it: that would be a stored block whose length and its complement don't fit."""


class OldStore(Closing):
    """The records of an old store, as bytes. Opening it checks the whole table; nothing of it is changed.

    Args:
        path: directory of the store.
        scratch: an empty directory, for at most 16 bytes a record.

    Raises:
        CorruptStoreError: header, table or files can't be right.
        OSError: it can't be read.
    """

    def __init__(self, path: Path, scratch: Path) -> None:
        self.path = path
        self._closing = ExitStack()
        try:
            self._meta: BinaryIO = self._closing.enter_context((path / "meta.zr").open("rb"))
            self.header = self._read_header()
            self._chunk_sizes = self._sizes_of_chunks()
            self.deflated = False
            self.counts = np.zeros(3, np.int64)
            """The number of records of each codec."""
            self._survey()
            self._views = self._view(scratch)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return self.header.length

    def close(self) -> None:
        """Let go of the files."""
        self._closing.close()

    def _fail(self, name: str, reason: str) -> NoReturn:
        raise CorruptStoreError(f"{self.path / name}: {reason}")

    def _read_header(self) -> Header:
        try:
            header = decode_header(self._meta.read(HEADER.size))
        except ValueError as error:
            self._fail("meta.zr", str(error))
        needed = HEADER.size + ENTRY.itemsize * header.length
        found = os.fstat(self._meta.fileno()).st_size
        if found < needed:
            self._fail("meta.zr", f"expected {needed} bytes for {header.length} records, found {found}")
        return header

    def _sizes_of_chunks(self) -> npt.NDArray[np.int64]:
        """How far records can lie in each chunk: to the end of the file, and in the last one to where the next would begin."""
        last = self.header.tail_chunk
        sizes = np.zeros(last + 1, np.int64)
        for chunk in range(last + 1):
            try:
                found = (self.path / f"{chunk}.zr").stat().st_size
            except FileNotFoundError:
                continue  # an error where a record lies in it
            sizes[chunk] = min(found, self.header.tail_offset if chunk == last else MAX_CHUNK)
        return sizes

    def _survey(self) -> None:
        """Check the table, and see which codecs there are."""
        stored = 0
        first_compressed: np.void | None = None
        for first, entries in self._tables():
            try:
                check_entries(self.header, entries, self._chunk_sizes)
            except BadEntry as error:
                self._fail("meta.zr", f"record {first + error.at}: {error}")
            codecs = codecs_of(self.header, entries)
            self.counts += np.bincount(codecs, minlength=3)
            stored += int(entries["stored"].sum(dtype=np.int64))
            compressed = np.flatnonzero(codecs == COMPRESSED)
            if first_compressed is None and compressed.size:
                first_compressed = entries[compressed[0]]
        # So a small store can't pass for a vast one by having many records in one place.
        if stored > self._chunk_sizes.sum():
            self._fail("meta.zr", f"expected records in {self._chunk_sizes.sum()} bytes of chunks, found {stored}")
        if self.header.version == 1 and first_compressed is not None:
            self.deflated = self._bytes_of(first_compressed)[:4] != ZSTD_MAGIC

    def _tables(self) -> Iterator[tuple[int, Table]]:
        """The record table: index of the first entry, and entries."""
        for first in range(0, len(self), BLOCK_RECORDS):
            count = min(BLOCK_RECORDS, len(self) - first)
            content = os.pread(self._meta.fileno(), count * ENTRY.itemsize, HEADER.size + first * ENTRY.itemsize)
            if len(content) != count * ENTRY.itemsize:
                self._fail("meta.zr", "it was cut while it was read")
            yield first, np.frombuffer(content, ENTRY)

    def _bytes_of(self, entry: np.void) -> bytes:
        """What is stored of a record whose entry is right."""
        with (self.path / f"{entry['chunk']}.zr").open("rb") as file:
            return os.pread(file.fileno(), int(entry["stored"]), int(entry["offset"]))

    def dictionary(self) -> bytes | None:
        """The zstd dictionary. CorruptStoreError if it is none that zstd ever trains."""
        file = self.path / "dict.zr"
        try:
            size = file.stat().st_size
        except FileNotFoundError:
            return None
        if size > DICT_LIMIT:
            self._fail(file.name, f"expected at most {DICT_LIMIT} bytes, found {size}")
        return read_small_file(file)

    def _view(self, scratch: Path) -> dict[int, View]:
        """A view for each codec that there is; deflated records are read through that of the raw ones."""
        names = {RAW: "raw", COMPRESSED: "raw" if self.deflated else "zstd", WITH_DICTIONARY: "zstd_dict"}
        if self.counts[WITH_DICTIONARY] and self.dictionary() is None:
            self._fail("dict.zr", f"missing, and {self.counts[WITH_DICTIONARY]} records need it")
        views: dict[int, View] = {}
        for codec in np.flatnonzero(self.counts).tolist():
            tail = self.header.tail_chunk, self.header.tail_offset
            view = View(scratch / f"view{codec}", self.path, names[codec], tail)
            views[codec] = self._closing.enter_context(view)
        for _, entries in self._tables():
            codecs = codecs_of(self.header, entries)
            for codec, view in views.items():
                view.add(entries[codecs == codec])
        for view in views.values():
            view.open()
        return views

    def blocks(self) -> Iterator[Block]:
        """All records in order, without shapes. CorruptRecordError or CorruptStoreError for one that does not decode."""
        done = dict.fromkeys(self._views, 0)
        for first, entries in self._tables():
            for start, stop in cut(np.maximum(entries["logical"], entries["stored"])):
                yield self._block(first + start, entries[start:stop], done)

    def _block(self, first: int, entries: Table, done: dict[int, int]) -> Block:
        """The records of `entries`; `done` has how many of each view came before, and gets these."""
        offsets = offsets_of(entries["logical"])
        values = np.empty(offsets[-1], np.uint8)
        codecs = codecs_of(self.header, entries)
        for codec, view in self._views.items():
            places = np.flatnonzero(codecs == codec)
            if not places.size:
                continue
            if codec == COMPRESSED and self.deflated:
                self._inflate(view, done[codec], first, entries, places, values, offsets)
            else:
                self._gather(view, done[codec], first, places, values, offsets[places])
            done[codec] += len(places)
        return Block(first, values, offsets, None)

    def _gather(
        self, view: View, before: int, first: int, places: Places, into: npt.NDArray[np.uint8], offsets: Places
    ) -> None:
        """Decode the records at `places` behind `first`, which come behind `before` others in the view."""
        try:
            view.gather(before, len(places), into, offsets.astype(np.uint64))
        except CorruptRecordError as error:
            record = first + int(places[int(error.record) - before])
            raise CorruptStoreError(
                f"{self.path}: record {record}: expected {error.expected}, found {error.found}"
            ) from error
        except ZrecordError as error:
            where = f"records {first + places[0]} to {first + places[-1]}"
            raise CorruptStoreError(f"{self.path}: {where}: {error}") from error

    def _inflate(
        self,
        view: View,
        before: int,
        first: int,
        entries: Table,
        places: Places,
        values: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.int64],
    ) -> None:
        """As `_gather`, for deflated records."""
        starts = offsets_of(entries["stored"][places])
        stored = np.empty(starts[-1], np.uint8)
        self._gather(view, before, first, places, stored, starts[:-1])
        packed = stored.data
        for at, place in enumerate(places.tolist()):
            begin, end = offsets[place : place + 2].tolist()
            try:
                record = inflate(packed[starts[at] : starts[at + 1]], end - begin)
            except ValueError as error:
                raise CorruptStoreError(f"{self.path}: record {first + place}: {error}") from error
            values[begin:end] = np.frombuffer(record, np.uint8)
