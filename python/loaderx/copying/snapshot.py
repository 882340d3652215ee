"""The records of a store of today, as a source."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from loaderx._core import read_small_file
from loaderx.closing import Closing
from loaderx.copying.block import BLOCK_RECORDS, Block, cut
from loaderx.dataset import schema as schemas
from loaderx.dataset.index import Indices
from loaderx.dataset.packed import fitting
from loaderx.dataset.shapes import rows_of_listed
from loaderx.older import refuse_older
from loaderx.zrecord import CorruptStoreError, Zrecord

Rows = npt.NDArray[np.uint32]


class Snapshot(Closing):
    """The records of a store, the first `length` or as many as there are now. As long as it is open, none is deleted or moved.

    `schema` is None for a store of plain byte records.
    """

    def __init__(self, path: Path, length: int | None = None) -> None:
        refuse_older(path)
        self.path = path
        self.schema = schemas.read(path) if (path / schemas.FILE).exists() else None
        # Maps would count what was read as memory in use, and let a file that is cut end the process.
        self._store = Zrecord(path, read_only=True, io="pread")
        try:
            self._length = len(self._store) if length is None else self._store.limit(length)
            self._listed = self._listed_rows()
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return self._length

    @property
    def codec(self) -> str:
        """The store's codec."""
        return self._store.codec

    @property
    def level(self) -> int | None:
        """The zstd level of the store; None where there is none or none is recorded."""
        return self._store.level

    @property
    def dense(self) -> bool:
        """Whether the records are all of one shape."""
        return self.schema is not None and self.schema.kind == "dense"

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()

    def dictionary(self) -> bytes | None:
        """The store's dictionary, if it has one."""
        return read_small_file(self.path / "dict.zr") if self._store.has_dict() else None

    def lengths(self, idxs: Indices) -> npt.NDArray[np.uint32]:
        """The bytes of each record, shape (n,)."""
        return self._store.lengths(idxs)

    def gather_packed(self, idxs: Indices) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """The records one after another, and their byte offsets, shape (n + 1,)."""
        return self._store.gather_packed(idxs)

    def blocks(self) -> Iterator[Block]:
        """All records in order, with their shapes."""
        for first in range(0, self._length, BLOCK_RECORDS):
            idxs = np.arange(first, min(first + BLOCK_RECORDS, self._length), dtype=np.uint64)
            for start, stop in cut(self.lengths(idxs)):
                yield self.block(first + start, idxs[start:stop])

    def block(self, first: int, idxs: Indices) -> Block:
        """The records at `idxs` as a block whose first one is the source's `first`. CorruptStoreError where they don't fit the schema."""
        values, offsets, rows = self._store.gather_shaped(idxs)
        if self._listed is not None:
            rows = self._listed[idxs.astype(np.int64)]
        if rows is not None and not rows.any():
            rows = None
        self._check(idxs, offsets, rows)
        return Block(first, values, offsets, rows)

    def _check(self, idxs: Indices, offsets: npt.NDArray[np.int64], rows: Rows | None) -> None:
        if self.schema is None:
            return
        if self.schema.item_shape is None:
            fitting(offsets, rows, self.schema.dtype, lambda at: f"{self.path}: record {idxs[at]}")
            return
        row = math.prod(self.schema.item_shape) * self.schema.dtype.itemsize
        if (wrong := np.diff(offsets) != row).any():
            self.fail(int(idxs[np.argmax(wrong)]), f"its length is not the {row} bytes of the item shape")

    def fail(self, record: int, reason: str) -> NoReturn:
        """CorruptStoreError for a record."""
        raise CorruptStoreError(f"{self.path}: record {record}: {reason}")

    def _listed_rows(self) -> Rows | None:
        """The shapes that loaderx 1.x lists in the schema as rows of the `.shape` file; None where there is no such list."""
        listed = None if self.schema is None else self.schema.shapes
        if listed is None:
            return None
        if len(listed) < self._length:
            raise CorruptStoreError(f"{self.path}: expected {self._length} shapes, found {len(listed)}")
        return rows_of_listed(listed[: self._length], self.path, "rewritten")
