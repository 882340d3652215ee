"""The container of one array that `.npy` files are, and that members of `.npz` files hold."""

from __future__ import annotations

import ast
import io
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from loaderx.converters.source import PART_BYTES, Array
from loaderx.dataset.dtypes import DType, contiguous, described, opaque, storable
from loaderx.dataset.spelling import with_voids

MAGIC = b"\x93NUMPY"
HEADER_LIMIT = 1 << 16
"""NumPy's own version 1 can't be longer."""
COLUMNS = 1 << 12
"""Arrays in Fortran order with more items a record than this are read item by item of a record, which would take for ever."""


@dataclass(frozen=True)
class Header:
    """What a header says of the array that follows it."""

    dtype: DType
    shape: tuple[int, ...]
    fortran: bool
    size: int
    """The bytes of the header itself."""

    @property
    def nameless(self) -> bool:
        """Whether values are a void without fields, which is all that NumPy keeps of the dtypes of `ml_dtypes`."""
        return self.dtype.type is np.void and self.dtype.names is None

    @property
    def note(self) -> str:
        """What a dry run says of the dtype: that it may be another one, where `ml_dtypes` has some of that width. Else nothing."""
        if not self.nameless or self.dtype.itemsize > 2:
            return ""
        known = "bfloat16" if self.dtype.itemsize == 2 else "float8_e4m3fn"
        return f"void of {self.dtype.itemsize} bytes; if ml_dtypes made them, dtype= says of what, such as {known!r}"

    @property
    def bytes(self) -> int:
        """The bytes of the array."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def item_shape(self) -> tuple[int, ...]:
        """The shape of a record."""
        return self.shape[1:]

    @property
    def item_bytes(self) -> int:
        """The bytes of a record."""
        return math.prod(self.item_shape) * self.dtype.itemsize

    @property
    def step(self) -> int:
        """How many records make a part."""
        return max(1, PART_BYTES // max(1, self.item_bytes))


def header_of(stream: IO[bytes], where: str, scalars: bool = False) -> Header:
    """Read the header at the beginning of a stream. ValueError where it is none, or of an array that no stream can hold.

    `scalars`: shape () will do.
    """
    start = stream.read(8)
    if start[:6] != MAGIC or len(start) < 8:
        raise ValueError(f"{where}: expected an array in NumPy's format, found other bytes at its beginning")
    if start[6] not in (1, 2, 3):
        raise ValueError(f"{where}: expected version 1, 2 or 3 of NumPy's format, found {start[6]}")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    if length > HEADER_LIMIT:
        raise ValueError(f"{where}: expected a header of at most {HEADER_LIMIT} bytes, found one of {length}")
    content = stream.read(length)
    if len(content) < length:
        raise ValueError(f"{where}: expected a header of {length} bytes, found the end after {len(content)}")
    try:
        values = ast.literal_eval(content.decode("latin1" if start[6] < 3 else "utf-8").strip())
        # NumPy writes names for some dtypes of `ml_dtypes` that it doesn't know itself, such as '<f1'.
        spelling: Any = with_voids(values["descr"])
        dtype = np.lib.format.descr_to_dtype(spelling)
        shape, fortran = values["shape"], values["fortran_order"]
    except Exception as error:  # a literal of any kind may come out, and a dtype of it raises what it likes
        raise ValueError(f"{where}: a header that can't be understood: {error}") from error
    if not (isinstance(shape, tuple) and all(type(n) is int and n >= 0 for n in shape) and type(fortran) is bool):
        raise ValueError(f"{where}: a header with shape {shape!r} and fortran_order {fortran!r}")
    if not shape and not scalars:
        raise ValueError(f"{where}: expected an array with an axis of records, found shape ()")
    try:
        return Header(storable(dtype), shape, fortran, 8 + width + length)
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error


def as_said(header: Header, said: Any, where: str) -> Header:
    """A header with the dtype that its void is said to be; None leaves it. ValueError where it is no void of that width."""
    if said is None:
        return header
    try:
        dtype = storable(said)
    except TypeError as error:
        raise TypeError(f"dtype: {error}") from error
    if not header.nameless or header.dtype.itemsize != dtype.itemsize:
        raise ValueError(
            f"{where}: dtype: {described(dtype)} is of {dtype.itemsize} bytes, and said of a void alone: expected "
            f"'|V{dtype.itemsize}', found {described(header.dtype)}"
        )
    return replace(header, dtype=dtype)


class InFile:
    """An array that lies in a file from some byte on, read by ranges: a file that is cut meanwhile is an error, and no crash."""

    def __init__(self, file: Path, offset: int, header: Header, where: str) -> None:
        self.header, self._file, self._offset, self._where = header, file, offset, where
        if header.fortran and math.prod(header.item_shape) > COLUMNS and len(header.shape) > 1:
            raise ValueError(
                f"{where}: this array is in Fortran order, so that each record's {math.prod(header.item_shape)} items are scattered "
                "over the whole file; save np.ascontiguousarray of it"
            )
        found, expected = file.stat().st_size, offset + header.item_bytes * header.shape[0]
        if found < expected:
            raise ValueError(
                f"{where}: cut: the {header.shape} of {described(header.dtype)} end at byte {expected}, and the file at {found}"
            )

    def __len__(self) -> int:
        return self.header.shape[0]

    def read(self, start: int, stop: int) -> Array:
        """The records from `start` up to `stop`."""
        header = self.header
        with self._file.open("rb", buffering=0) as file:
            if not header.fortran or len(header.shape) == 1:
                records: Array = np.empty((stop - start, *header.item_shape), header.dtype)
                self._fill(file, opaque(records), start * header.item_bytes)
                return records
            columns = opaque(np.empty((math.prod(header.item_shape), stop - start), header.dtype))
            for at, column in enumerate(columns):
                self._fill(file, column, (at * len(self) + start) * header.dtype.itemsize)
        shape = (stop - start, *header.item_shape)
        return contiguous(columns.T.reshape(shape, order="F").view(header.dtype))

    def _fill(self, file: io.FileIO, array: Array, offset: int) -> None:
        """Read all of a C-contiguous array."""
        view = bytes_of(array)
        file.seek(self._offset + offset)
        done = 0
        while done < len(view):
            count = file.readinto(view[done:])
            if not count:
                raise OSError(f"{self._where}: the file ends in the midst of its records; it was cut meanwhile")
            done += count


def filled(stream: IO[bytes], array: Array, where: str) -> None:
    """Read all of a C-contiguous array from a stream, such as one that is inflated."""
    view = bytes_of(opaque(array))
    done = 0
    while done < len(view):
        more = stream.read(min(len(view) - done, 1 << 20))
        if not more:
            raise ValueError(f"{where}: cut: it ends in the midst of its records")
        view[done : done + len(more)] = more
        done += len(more)


def bytes_of(array: Array) -> memoryview:
    """The memory of a C-contiguous array."""
    values: Any = array.reshape(-1).view(np.uint8) if array.size else np.zeros(0, np.uint8)
    return memoryview(values)
