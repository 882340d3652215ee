"""Dense datasets: every record has the same shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx.dataset.base import Dataset
from loaderx.dataset.dtypes import as_array, contiguous, described
from loaderx.dataset.index import Indices, out_of_range
from loaderx.dataset.packed import refuse_packed
from loaderx.dataset.schema import Shape
from loaderx.zrecord import Io, PathLike, Verify

Array = npt.NDArray[Any]


class DenseDataset(Dataset[Any, Array, Array]):
    """Records of one shape, read as stacked arrays.

    `ds[i]` is one record: an array of shape `item_shape`, or a NumPy scalar where that is `()`. Every other index is a record set, an
    array of shape (n, *item_shape). What is read is the caller's own: writable, C-contiguous, and no view of the store (but for `view`).

    Args:
        path: directory of the store.
        dtype: dtype of the records; needed to create a store, else checked against it.
        item_shape: shape of one record; needed to create a store, else checked against it. Zero dimensions are fine.
        codec: "raw", "zstd" (what a new store gets by default) or "zstd_dict"; checked against an existing store.
        schema: your own keys for `schema.msgpack` of a new store; checked against an existing one.
        level: zstd level of a new store. None: 3 for "zstd", 19 for "zstd_dict".
        verify: "always" checks each record that is read against its checksum, "once" only at its first read, "never" trusts the disk.
        io: "mmap" reads through a memory map, "pread" by positional reads, "auto" chooses by the file system.
        read_only: never create and never write.

    Raises:
        TypeError: a dtype that no store can hold.
        ImportError: a dtype of `ml_dtypes`, which is not installed.
        ValueError: an argument that contradicts the store.
        FileNotFoundError: there is no store, and too little is given to create one.
        OSError: the path is a file, may not be read, or the disk fails.
        ZrecordError: the directory holds something else, or a damaged store.
    """

    kind = "dense"

    def __init__(
        self,
        path: PathLike,
        dtype: npt.DTypeLike | None = None,
        item_shape: Shape | None = None,
        codec: str | None = None,
        schema: Mapping[str, Any] | None = None,
        *,
        level: int | None = None,
        verify: Verify = "always",
        io: Io = "auto",
        read_only: bool = False,
    ) -> None:
        super().__init__(path, dtype, item_shape, codec, schema, level=level, verify=verify, io=io, read_only=read_only)
        self._rows = self._store.rows(self.dtype, self.item_shape)

    @property
    def item_shape(self) -> Shape:
        """The shape of every record."""
        shape = self._schema.item_shape
        assert shape is not None
        return shape

    def __getitem__(self, index: Any) -> Any:
        # An array of indices from the front, as samplers give it, is a batch in one native call.
        if type(index) is np.ndarray and (rows := self._rows.take(index)) is not None:
            return rows
        return super().__getitem__(index)

    def gather(self, index: Any, out: Array | None = None) -> Array:
        """The record set that `index` selects, as `ds[index]` gives it; an integer is a set of one.

        Args:
            index: as in `ds[index]`.
            out: where to put it: a C-contiguous, writable array of shape (n, *item_shape) and the store's dtype, such as the NumPy view of
                a pinned tensor. Nothing is allocated, and `out` is returned. After an error its content is unspecified.

        Raises:
            TypeError: `out` is no array.
            ValueError: `out` has another shape, dtype or layout.
        """
        if out is None:
            return self.__getitems__(index)
        if type(index) is np.ndarray and index.ndim == 1 and index.dtype.kind in "iu":
            self._check_out(out, (index.size, *self.item_shape))
            if self._rows.fill(index, out):
                return out
        idxs = self._select(index)
        self._check_out(out, (idxs.size, *self.item_shape))
        self._store.gather_rows(idxs, out)
        return out

    def _check_out(self, out: Array, shape: Shape) -> None:
        if not isinstance(out, np.ndarray):
            raise TypeError(f"out: expected a NumPy array, found {type(out).__name__}")
        if out.shape != shape or out.dtype != self.dtype:
            expected = f"shape {shape} and dtype {described(self.dtype)}"
            raise ValueError(f"out: expected {expected}, found shape {out.shape} and dtype {described(out.dtype)}")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError("out: expected a C-contiguous, writable array")

    def view(self, start: int, stop: int) -> Array:
        """The records `start` to `stop` as a read-only array on the store's own file: nothing is copied.

        The records are checked now, all of them, as `verify` says. As long as the array or a view of it lives, here or in a forked child,
        the store can be read and appended to, but nobody can delete from it or compact it. A foreign program that cuts the file ends
        the process at its next look at what is gone.

        Raises:
            IndexError: not 0 <= start <= stop <= len(ds).
            ValueError: there is no such view: the store is not "raw", or was deleted from since it was empty, or the records lie in two of
                its files (of at most 4 GiB), or it is read without memory maps (network file systems, io="pread") or without locks.
            StoreLockedError: another handle is deleting from the store or compacting it.
            CorruptRecordError: a record's bytes are not what was written.
        """
        length = len(self)
        if not 0 <= start <= stop <= length:
            raise IndexError(f"records {start} to {stop}: expected 0 <= start <= stop <= {length}")
        if start == stop:
            return self._records(self._select(slice(start, stop)))
        return self._rows.view(start, stop)

    def _record(self, index: int) -> Any:
        item = self._rows.record(index)
        return item if item.ndim else item[()]

    def _records(self, idxs: Indices) -> Array:
        rows = self._rows.take(idxs)
        if rows is None:
            raise out_of_range(int(idxs.max()), len(self))
        return rows

    def _check(self, records: npt.ArrayLike) -> tuple[int, Array]:
        refuse_packed(records, "append", "an array of records")
        batch = as_array(records, self.dtype, "append")
        if batch.ndim == 0 or batch.shape[1:] != self.item_shape:
            expected = ", ".join(["batch", *map(str, self.item_shape)])
            hint = "; one record is record[None]" if batch.shape == self.item_shape else ""
            raise ValueError(f"append: expected shape ({expected}), found {batch.shape}{hint}")
        if len(batch) == 0:
            raise ValueError(f"append: expected at least one record, found shape {batch.shape}")
        return len(batch), contiguous(batch)

    def _write(self, checked: tuple[int, Array]) -> int:
        return self._store.append_rows(checked[1])
