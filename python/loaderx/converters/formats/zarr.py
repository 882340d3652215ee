"""Zarr, formats 2 and 3: an array, or the arrays of a group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from loaderx.converters.aligned import AlignedSource, Read
from loaderx.converters.identity import Identity, fingerprint
from loaderx.converters.source import TEXT, Array, Format, StreamSpec, Values
from loaderx.dataset.dtypes import storable
from loaderx.dataset.packed import Packed

MARKS = ("zarr.json", ".zgroup", ".zarray")
FREE = ("attributes", "dimension_names", "fill_value")
"""What of an array's description its writer may fill with any words."""
ABOUT = 256
"""Bytes that a value of no fixed width is thought to have."""


class ZarrArray:
    """One array."""

    sequential = False

    def __init__(self, array: Any, path: str, where: str) -> None:
        self._array, self._where, self.path = array, where, array.path
        if array.ndim == 0:
            raise ValueError(f"{where}: expected an axis of records, found shape ()")
        described = array.metadata.to_dict()
        if "pickle" in repr([value for key, value in described.items() if key not in FREE]).lower():
            raise ValueError(f"{where}: its values are pickled, and unpickling runs what a file says")
        self.rows, self.chunk = array.shape[0], array.chunks[0]
        origin = f"array {path!r}" if path else ""
        if array.dtype.kind in "OT":
            if array.ndim > 1 or kind_of_objects(described) is None:
                raise ValueError(f"{where}: no stream can hold {array.dtype} values of shape {array.shape[1:]}")
            metadata = TEXT if kind_of_objects(described) == "text" else {}
            self.spec = StreamSpec(path, "ragged", np.dtype(np.uint8), None, origin, metadata)
            self.row_bytes = ABOUT
        else:
            dtype = checked(array.dtype, where)
            self.spec = StreamSpec(path, "dense", dtype, tuple(array.shape[1:]), origin)
            self.row_bytes = int(np.prod(array.shape[1:], dtype=np.float64)) * dtype.itemsize

    def reader(self, start: int) -> Read:
        """Any range; whole chunks are read at once, by threads of zarr's own."""
        return self._read

    def _read(self, start: int, stop: int) -> Values:
        with zarr_errors(f"{self._where}, records {start} to {stop - 1}"):
            values: Array = np.asarray(self._array[start:stop])
        if self.spec.kind == "dense":
            return values.astype(self.spec.dtype, copy=False)
        records = [self._bytes(one, start + at) for at, one in enumerate(values.tolist())]
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in records], dtype=np.int64)]).astype(np.int64)
        return Packed(np.frombuffer(b"".join(records), np.uint8), offsets, None)

    def _bytes(self, one: Any, record: int) -> bytes:
        try:
            return one.encode() if isinstance(one, str) else bytes(memoryview(one))
        except (TypeError, UnicodeError) as error:
            if one == 0:
                return b""  # the fill value of zarr 2 where nothing is written
            raise ValueError(
                f"{self._where}, record {record}: expected text or bytes, found {type(one).__name__}: {error}"
            ) from error


def checked(dtype: np.dtype[Any], where: str) -> np.dtype[Any]:
    """A dtype that a stream can hold, or a ValueError."""
    try:
        return storable(dtype)
    except TypeError as error:
        raise ValueError(f"{where}: no stream can hold its values: {error}") from error


def kind_of_objects(described: dict[str, Any]) -> str | None:
    """Whether values of no fixed width are text or bytes; None for anything else."""
    said = repr([described.get(key) for key in ("data_type", "filters", "codecs")]).lower()
    if "vlen-utf8" in said or "'string'" in said or "utf8" in said:
        return "text"
    return "bytes" if "vlen-bytes" in said or "variable_length_bytes" in said or "bytes" in said else None


@contextmanager
def zarr_errors(where: str) -> Iterator[None]:
    """What zarr and its codecs raise, which is anything, as a ValueError that says where."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{where}: it can't be read: {str(error) or type(error).__name__}") from error


def columns_of(opened: Any, where: str, refused: dict[str, str]) -> list[ZarrArray]:
    """The arrays of a group, or an array itself."""
    import zarr

    if isinstance(opened, zarr.Array):
        return [ZarrArray(opened, "", where)]
    with zarr_errors(where):
        members = sorted(opened.members(max_depth=None))
    found: list[ZarrArray] = []
    for path, member in members:
        if isinstance(member, zarr.Array):
            try:
                found.append(ZarrArray(member, path, f"{where}: array {path!r}"))
            except ValueError as error:
                refused[path] = str(error)
    return found


def source(given: Any, *, only: Sequence[str] | None = None) -> AlignedSource:
    """Directories, by the file that says what they are, or an array or group of zarr."""
    import zarr

    refused: dict[str, str] = {}
    if not isinstance(given, list):
        columns = columns_of(given, "zarr", refused)
        return InMemory(partial(identity, given, [column.path for column in columns]), columns, refused, only)
    tables = []
    for mark in given:
        with zarr_errors(str(mark.parent)):
            opened = zarr.open(store=str(mark.parent), mode="r")
        tables.append(columns_of(opened, str(mark.parent), refused))
    return AlignedSource(given, tables, refused, only, lambda: None)


class InMemory(AlignedSource):
    """An array or group that is open."""

    def __init__(
        self, identity: Identity, columns: Sequence[ZarrArray], refused: dict[str, str], only: Sequence[str] | None
    ) -> None:
        super().__init__([], [columns], refused, only, lambda: None)
        self.identity = identity


def identity(opened: Any, arrays: Sequence[str]) -> str | None:
    """Of what lies in a directory the files that describe it and its arrays; of a zip file that. None for other stores."""
    store, kind = opened.store, type(opened.store).__name__
    if kind == "LocalStore":
        files = [mark for path in dict.fromkeys([opened.path, *arrays]) for mark in finds(store.root / path)]
    else:
        files = [Path(store.path)] if kind == "ZipStore" else []
    return f"{opened.path!r}, {fingerprint(files)}" if files else None


def finds(path: Path) -> list[Path]:
    """The file in a directory that says what is in it."""
    return [path / name for name in MARKS if (path / name).is_file()][:1]


def takes(value: Any) -> bool:
    """Arrays and groups of zarr."""
    return type(value).__module__.split(".")[0] == "zarr" and type(value).__name__ in ("Array", "Group")


FORMAT = Format("zarr", "Zarr", finds, source, "zarr", takes)
