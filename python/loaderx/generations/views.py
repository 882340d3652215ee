"""Old records as records of a store of today, so that its reader finds, bounds and decodes them.

A view is a folder beside the new store: a plain header, a record table, and links to the old chunks, of which it changes nothing. There
is one for each way in which records of an old store are encoded.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from loaderx.closing import Closing
from loaderx.dataset import header
from loaderx.generations.layout import Table
from loaderx.zrecord import CODECS, Zrecord

ENTRY = np.dtype([("offset", "<u4"), ("stored", "<u4"), ("logical", "<u4"), ("chunk", "<u4")])


class View(Closing):
    """Records that are all encoded in one way: first `add` all, then `open`, then `gather`.

    `tail`: the chunk, and the offset in it, where the old store's next record would lie.
    """

    def __init__(self, directory: Path, old: Path, codec: str, tail: tuple[int, int]) -> None:
        self._directory, self._codec, self._tail = directory, codec, tail
        self._old = old.absolute()
        self._length = 0
        self._store: Zrecord | None = None
        directory.mkdir()
        self._table: BinaryIO = (directory / "0.loc").open("wb")

    def __len__(self) -> int:
        return self._length

    def add(self, entries: Table) -> None:
        """Records behind those that are there. In a raw view a record is what is stored, encoded or not."""
        table = np.empty(len(entries), ENTRY)
        for name in ENTRY.names or ():
            table[name] = entries[name]
        if self._codec == "raw":
            table["logical"] = table["stored"]
        self._table.write(table.tobytes())
        self._length += len(table)

    def open(self) -> None:
        """Make the store, and open it."""
        self._table.close()
        for chunk in range(self._tail[0] + 1):
            (self._directory / f"{chunk}.chunk").symlink_to(self._old / f"{chunk}.zr")
        if self._codec == "zstd_dict":
            (self._directory / "dict.zr").symlink_to(self._old / "dict.zr")
        content = header.plain(CODECS[self._codec], self._tail, self._length)
        (self._directory / header.FILE).write_bytes(content)
        # By positional reads: a foreign program that cuts a chunk meanwhile must not end this process.
        self._store = Zrecord(self._directory, read_only=True, io="pread")

    def gather(self, first: int, count: int, into: npt.NDArray[np.uint8], offsets: npt.NDArray[np.uint64]) -> None:
        """Decode the records `first` to `first + count` into `into`, each at its byte offset."""
        assert self._store is not None
        self._store.gather(np.arange(first, first + count, dtype=np.uint64), into, offsets)

    def close(self) -> None:
        """Let go of the files."""
        self._table.close()
        if self._store is not None:
            self._store.close()
