"""Ragged datasets: every record has a shape of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loaderx.dataset import schema as schemas
from loaderx.dataset.base import Dataset
from loaderx.dataset.dtypes import as_array, contiguous, described
from loaderx.dataset.foreign import is_array
from loaderx.dataset.index import Indices
from loaderx.dataset.packed import Packed, assembled, listed_shapes
from loaderx.dataset.shapes import check_shape, rows_of, split
from loaderx.zrecord import MAX_RECORD_LEN, Bytes, CorruptStoreError, Io, PathLike, Verify, ZrecordError

Array = npt.NDArray[Any]


class Prepared(NamedTuple):
    """Records ready to be written: C-contiguous arrays, and their shape rows if one of them is not one-dimensional."""

    records: list[Array]
    shapes: npt.NDArray[np.uint32] | None


class RaggedDataset(Dataset[Array, list[Array], Prepared]):
    """Records of one dtype and a shape each: list in, list out.

    `ds[i]` is one record, an array of the shape that it was appended with, of up to seven dimensions. Every other index is a record
    set, a list of arrays. They are writable; those of one read share one block of memory and do not overlap.

    An empty record is fine. Raw `bytes` are records of a "uint8" dataset; in one of text (S, U) a `bytes` or `str` is a record of shape ().

    Stores of loaderx 1.x, which list their shapes in `schema.msgpack`, read as they are. The first append to or deletion from such a
    store moves the shapes to `.shape` files, as `docs/format.md` describes; loaderx 1.x can't read its records any more from then on.

    Args:
        path: directory of the store.
        dtype: dtype of the records; needed to create a store, else checked against it.
        codec: "raw", "zstd" (what a new store gets by default) or "zstd_dict"; checked against an existing store.
        schema: your own keys for `schema.msgpack` of a new store; checked against an existing one.
        level: zstd level of a new store. None: 3 for "zstd", 19 for "zstd_dict".
        verify: "always" checks each record that is read against its checksum, "once" only at its first read, "never" trusts the disk.
        io: "mmap" reads through a memory map, "pread" by positional reads, "auto" chooses by the file system.
        read_only: never create and never write.

    Raises:
        As `DenseDataset`.
    """

    kind = "ragged"

    def __init__(
        self,
        path: PathLike,
        dtype: npt.DTypeLike | None = None,
        codec: str | None = None,
        schema: Mapping[str, Any] | None = None,
        *,
        level: int | None = None,
        verify: Verify = "always",
        io: Io = "auto",
        read_only: bool = False,
    ) -> None:
        super().__init__(path, dtype, None, codec, schema, level=level, verify=verify, io=io, read_only=read_only)
        try:
            self._check_shapes()
        except CorruptStoreError:
            self.close()
            raise

    def _check_shapes(self) -> None:
        """CorruptStoreError where the shapes that loaderx 1.x lists are not those of the records."""
        listed = self._schema.shapes
        if listed is not None and len(listed) != len(self):
            raise CorruptStoreError(
                f"{self.path / schemas.FILE}: expected a shape for each of {len(self)} records, found {len(listed)}: "
                "loaderx 1.x was cut while it wrote this store, or wrote to one whose shapes lie in .shape files"
            )

    def _record(self, index: int) -> Array:
        return self._records(np.array([index], np.uint64))[0]

    def packed(self, index: Any) -> Packed:
        """The record set that `index` selects, in one array and without a step in Python for each record.

        The index forms are those of `ds[...]`; an integer is a set of one. The arrays are writable and the caller's own.
        """
        return self._packed(self._select(index))

    def _records(self, idxs: Indices) -> list[Array]:
        return split(*self._packed(idxs))

    def _packed(self, idxs: Indices) -> Packed:
        while True:
            listed = self._schema.shapes
            packed, starts, rows = self._store.gather_shaped(idxs)
            if self._schema.shapes is listed:  # else another thread moved the shapes to `.shape` files meanwhile
                break

        def where(at: int) -> str:
            return f"{self.path}: record {idxs[at]}"

        batch = assembled(packed, starts, rows, self.dtype, where)
        return batch if listed is None else batch._replace(shapes=listed_shapes(listed, idxs, batch.offsets, where))

    def _check(self, records: Iterable[npt.ArrayLike | Bytes]) -> tuple[int, Prepared]:
        if isinstance(records, (str, bytes, bytearray, memoryview, Mapping)) or is_array(records):
            raise TypeError(
                f"append: expected a list of records, found one {type(records).__name__}; "
                "one record is [record], the rows of an array are list(array)"
            )
        arrays = [self._as_record(record, f"append: record {i}") for i, record in enumerate(records)]
        if not arrays:
            raise ValueError("append: expected at least one record, found none")
        return len(arrays), Prepared([contiguous(a) for a in arrays], rows_of([a.shape for a in arrays]))

    def _as_record(self, record: Any, what: str) -> Array:
        if isinstance(record, (bytes, bytearray)) and self.dtype.kind != "S" and self.dtype != np.uint8:
            raise ValueError(f"{what}: bytes are records of dtype '|u1', and this store has {described(self.dtype)}")
        array = as_array(record, self.dtype, what)
        if array.nbytes > MAX_RECORD_LEN:
            raise ValueError(f"{what}: expected at most {MAX_RECORD_LEN} bytes, found {array.nbytes}")
        check_shape(array.shape, what)
        return array

    def _write(self, checked: tuple[int, Prepared]) -> int:
        self._adopt_listed_shapes()
        return self._store.append_list(checked[1].records, checked[1].shapes)

    def _delete(self, idxs: Indices) -> None:
        self._adopt_listed_shapes()
        self._store.delete(idxs)

    def refresh(self) -> int:
        """See what others appended since; returns the length."""
        length = super().refresh()
        if self._schema.shapes is not None:
            self._schema = schemas.read(self._absolute)
        self._check_shapes()
        return length

    def _adopt_listed_shapes(self) -> None:
        """Move the shapes that loaderx 1.x lists in the schema to `.shape` files, once."""
        if self._schema.shapes is not None:
            self.refresh()  # another handle may have appended, or done this already
        listed = self._schema.shapes
        if listed is None:
            return
        for record, shape in enumerate(listed):
            try:
                check_shape(shape, f"{self.path}: record {record}")
            except ValueError as error:
                raise ZrecordError(f"this store of loaderx 1.x can be read, but not changed: {error}") from error
        rows = rows_of(listed)
        adopted = self._schema.without_shapes()
        if rows is None:
            rows = np.zeros((len(listed), 8), np.uint32)
        self._store.adopt_shapes(rows, schemas.encode(adopted))
        self._schema = adopted
