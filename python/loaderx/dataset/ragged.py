"""Ragged datasets: every record has a shape of its own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx.dataset import schema as schemas
from loaderx.dataset.base import Dataset
from loaderx.dataset.changing import Changing
from loaderx.dataset.dtypes import as_array, contiguous, described
from loaderx.dataset.foreign import is_array
from loaderx.dataset.index import Indices
from loaderx.dataset.packed import Packed, Where, assembled, fitting, flat, listed, misfit, offsets_of, refuse_packed
from loaderx.dataset.shapes import ROW_WIDTH, Shape, check_shape, rows_of_listed
from loaderx.zrecord import MAX_RECORD_LEN, CorruptStoreError, Io, PathLike, Verify

Array = npt.NDArray[Any]
Value = TypeVar("Value")


class Prepared(NamedTuple):
    """Records ready to be written."""

    records: list[Array] | Array
    """C-contiguous arrays; or one, and they lie in it one after another."""
    starts: npt.NDArray[np.uint64] | None
    """The byte where each begins if they lie in one array."""
    rows: npt.NDArray[np.uint32] | None
    """Of the `.shape` file, if one of them is not one-dimensional."""


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
        self._changing = Changing()
        super().__init__(path, dtype, None, codec, schema, level=level, verify=verify, io=io, read_only=read_only)
        try:
            self._check_shapes()
        except CorruptStoreError:
            self.close()
            raise

    def _check_shapes(self) -> None:
        """CorruptStoreError where the shapes that loaderx 1.x lists are not those of the records."""
        old = self._schema.shapes
        if old is not None and len(old) != len(self):
            raise CorruptStoreError(
                f"{self.path / schemas.FILE}: expected a shape for each of {len(self)} records, found {len(old)}: "
                "loaderx 1.x was cut while it wrote this store, or wrote to one whose shapes lie in .shape files"
            )

    def _record(self, index: int) -> Array:
        return self._records(np.array([index], np.uint64))[0]

    def packed(self, index: Any) -> Packed:
        """The record set that `index` selects, in one array and without a step in Python for each record.

        The index forms are those of `ds[...]`; an integer is a set of one. The arrays are writable and the caller's own.
        """
        quick = self._quick(index)
        if quick is None:
            return self._packed(self._select(index))
        values, places, rows = quick
        return Packed(values, places, None if rows is None else _core.shapes(rows, places))

    def __getitem__(self, index: Any) -> Any:
        quick = self._quick(index)
        return super().__getitem__(index) if quick is None else _core.split(*quick)

    def __getitems__(self, index: Any) -> list[Array]:
        """The record set that `index` selects; an integer is a set of one."""
        quick = self._quick(index)
        return super().__getitems__(index) if quick is None else _core.split(*quick)

    def _quick(self, index: Any) -> tuple[Array, npt.NDArray[np.int64], npt.NDArray[np.uint32] | None] | None:
        """Values, places and shape rows of the records that an array selects, with hardly a step in Python. None: look closer."""
        if type(index) is not np.ndarray or self._schema.shapes is not None:
            return None
        found = self._store.gather_items(index, self._schema.dtype)
        if found is not None and found[2] is not None and not _core.fits(found[2], found[1]).all():
            return None
        return found

    def shapes(self, index: Any) -> list[Shape]:
        """The shape of each selected record, without reading any; one for an integer.

        CorruptStoreError for a record that can't have the shape that is kept for it.
        """
        idxs = self._select(index)
        (lengths, rows), old = self._of_one_moment(lambda: self._store.forms(idxs))
        places, rows = fitting(offsets_of(lengths), rows, self.dtype, self._where(idxs))
        if old is not None:
            return self._old_shapes(old, idxs, places)
        return _core.shapes(np.zeros((len(idxs), ROW_WIDTH), np.uint32) if rows is None else rows, places)

    def _records(self, idxs: Indices) -> list[Array]:
        gathered, old = self._of_one_moment(lambda: self._store.gather_shaped(idxs))
        records = listed(*gathered, self.dtype, self._where(idxs))
        if old is None:
            return records
        shapes = self._old_shapes(old, idxs, gathered[1] // self.dtype.itemsize)
        return [record.reshape(shape) for record, shape in zip(records, shapes, strict=True)]

    def _packed(self, idxs: Indices) -> Packed:
        gathered, old = self._of_one_moment(lambda: self._store.gather_shaped(idxs))
        batch = assembled(*gathered, self.dtype, self._where(idxs))
        return batch if old is None else batch._replace(shapes=self._old_shapes(old, idxs, batch.offsets))

    def _of_one_moment(self, read: Callable[[], Value]) -> tuple[Value, tuple[Shape, ...] | None]:
        """What `read` gives, and the shapes that the schema lists if it is loaderx 1.x's."""
        while True:
            old = self._schema.shapes
            value = read()
            if self._schema.shapes is old:  # else another thread moved the shapes to `.shape` files meanwhile
                return value, old

    def _where(self, idxs: Indices) -> Where:
        return lambda at: f"{self.path}: record {idxs[at]}"

    def _old_shapes(self, old: tuple[Shape, ...], idxs: Indices, places: npt.NDArray[np.int64]) -> list[Shape]:
        """The shapes of records, of those that the schema lists for all. CorruptStoreError where one doesn't fit."""
        shapes = [old[i] for i in idxs.tolist()]
        for at, (shape, items) in enumerate(zip(shapes, np.diff(places).tolist(), strict=True)):
            if math.prod(shape) != items:
                raise misfit(places, at, self._where(idxs))
        return shapes

    def append(self, records: Any) -> int:
        """Append records in one native call; nothing is buffered or inferred.

        Args:
            records: a container of records, arrays of any package or whatever says how it becomes one (`docs/dtypes.md`); or a `Packed`,
                for which there is no step in Python for each record. Its offsets may be any integers, shape (n + 1,), and its shapes a
                list of tuples, integers of shape (n, rank), or None. All of it is checked before anything is written.

        What is C-contiguous is stored from where it lies, without a copy: what changes it meanwhile damages the record.

        Returns:
            As `DenseDataset.append`.

        Raises:
            As `DenseDataset.append`; ValueError also for offsets or shapes that don't fit, naming the record. Nothing was written.
        """
        return super().append(records)

    def _check(self, records: Any) -> tuple[int, Prepared]:
        if isinstance(records, Packed):
            return self._check_packed(records)
        one = isinstance(records, (str, bytes, bytearray, memoryview, Mapping)) or is_array(records)
        if one or not np.iterable(records):
            raise TypeError(
                f"append: expected a list of records, found one {type(records).__name__}; "
                "one record is [record], the rows of an array are list(array)"
            )
        arrays, rows = _core.ready(records, self.dtype, lambda record, i: self._ready(record, f"append: record {i}"))
        if not arrays:
            raise ValueError("append: expected at least one record, found none")
        return len(arrays), Prepared(arrays, None, rows)

    def _check_packed(self, records: Packed) -> tuple[int, Prepared]:
        batch = flat(records, self.dtype, "append")
        items = batch.items
        too_long = items > MAX_RECORD_LEN // self.dtype.itemsize
        if too_long.any():
            at = int(np.argmax(too_long))
            found = int(items[at]) * self.dtype.itemsize
            raise ValueError(f"append: record {at}: expected at most {MAX_RECORD_LEN} bytes, found {found}")
        return len(items), Prepared(batch.values, batch.starts, batch.rows)

    def _ready(self, record: Any, what: str) -> Array:
        """The record as a C-contiguous array of its shape."""
        array = self._as_record(record, what)
        return array if array.flags.c_contiguous else contiguous(array)

    def _as_record(self, record: Any, what: str) -> Array:
        refuse_packed(record, what, "a record")
        if isinstance(record, (bytes, bytearray)) and self.dtype.kind != "S" and self.dtype != np.uint8:
            raise ValueError(f"{what}: bytes are records of dtype '|u1', and this store has {described(self.dtype)}")
        array = as_array(record, self.dtype, what)
        if array.nbytes > MAX_RECORD_LEN:
            raise ValueError(f"{what}: expected at most {MAX_RECORD_LEN} bytes, found {array.nbytes}")
        check_shape(array.shape, what)
        return array

    def _write(self, checked: tuple[int, Prepared]) -> int:
        self._adopt_listed_shapes()
        records, starts, rows = checked[1]
        if starts is None:
            return self._store.append_list(cast(list[Array], records), rows)
        return self._store.append(cast(Array, records), starts, rows)

    def _delete(self, idxs: Indices) -> None:
        self._adopt_listed_shapes()
        self._store.delete(idxs)

    def refresh(self) -> int:
        """See what others appended since; returns the length."""
        if self._schema.shapes is None:  # and never will be again
            return super().refresh()
        with self._changing.lock():
            return self._refresh_listed()

    def _refresh_listed(self) -> int:
        """For one thread at a time: another one that just moved the shapes would be overtaken by what was read before."""
        length = super().refresh()
        if self._schema.shapes is not None:
            self._schema = schemas.read(self._absolute)
        self._check_shapes()
        return length

    def _adopt_listed_shapes(self) -> None:
        """Move the shapes that loaderx 1.x lists in the schema to `.shape` files, once."""
        if self._schema.shapes is not None:
            with self._changing.lock():
                self._adopt_alone()

    def _adopt_alone(self) -> None:
        self._refresh_listed()  # another handle may have appended, or another thread done this already
        old = self._schema.shapes
        if old is None:
            return
        rows, adopted = rows_of_listed(old, self.path, "changed"), self._schema.without_shapes()
        self._store.adopt_shapes(rows, schemas.encode(adopted))
        self._schema = adopted
