"""NumPy's `.npz`: several arrays of equally many records in a zip file."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from loaderx.converters.aligned import AlignedSource, Read
from loaderx.converters.finding import with_suffix
from loaderx.converters.formats.npyfile import Header, InFile, as_said, filled, header_of
from loaderx.converters.formats.splits import one_split
from loaderx.converters.source import Array, Format, StreamSpec
from loaderx.dataset.dtypes import contiguous, described, opaque, storable

END = ".npy"


class Archive:
    """A file, which is open while a member of it is read."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._opened: zipfile.ZipFile | None = None
        self._streams: list[IO[bytes]] = []

    def stream(self, info: zipfile.ZipInfo) -> IO[bytes]:
        """The bytes of a member, until `done` with it."""
        if self._opened is None:
            self._opened = zipfile.ZipFile(self.file)
        self._streams.append(self._opened.open(info))
        return self._streams[-1]

    def done(self, stream: IO[bytes]) -> None:
        """Let go of a stream, and with the last one of the file."""
        stream.close()
        self._streams.remove(stream)
        if not self._streams:
            self.close()

    def close(self) -> None:
        """Let go of the file."""
        for stream in self._streams:
            stream.close()
        if self._opened is not None:
            self._opened.close()
        self._streams, self._opened = [], None


class Member:
    """One array of a file."""

    sequential = True

    def __init__(self, archive: Archive, info: zipfile.ZipInfo, header: Header, where: str) -> None:
        name = info.filename.removesuffix(END)
        self.spec = StreamSpec(
            name, "dense", header.dtype, header.item_shape, f"array {name!r}{': ' if header.note else ''}{header.note}"
        )
        self.rows, self.chunk, self.row_bytes = header.shape[0], 1, header.item_bytes
        deflated = info.compress_type != zipfile.ZIP_STORED
        scattered = header.fortran and len(header.shape) > 1
        self._archive, self._info, self._header, self._where = archive, info, header, where
        self._scattered: InFile | None = None
        if scattered and not deflated:
            self._scattered = InFile(archive.file, offset_of(archive.file, info, header), header, where)
        if scattered and deflated:
            raise ValueError(
                f"{where}: compressed, and in Fortran order, so that its records are all over it; "
                "save np.ascontiguousarray of it, or without compression"
            )

    def reader(self, start: int) -> Read:
        """From its beginning, which checks its checksum; what is stored, from `start` on."""
        if self._scattered is not None:
            return self._scattered.read
        return partial(self._inflated, self._opened(start))

    def _opened(self, start: int) -> IO[bytes]:
        with zip_errors(self._where):
            stream = self._archive.stream(self._info)
            if start:
                stream.seek(self._header.size + start * self._header.item_bytes)
            else:
                stream.read(self._header.size)  # after a seek, a checksum is not checked
            return stream

    def _inflated(self, stream: IO[bytes], start: int, stop: int) -> Array:
        records: Array = np.empty((stop - start, *self._header.item_shape), self._header.dtype)
        with zip_errors(self._where):
            filled(stream, opaque(records), self._where)
            if stop == self.rows and stream.read(1):
                raise ValueError(f"{self._where}: there is more than the {self.rows} records that it says it has")
        if stop == self.rows:
            self._archive.done(stream)
        return contiguous(records)


def offset_of(file: Path, info: zipfile.ZipInfo, header: Header) -> int:
    """Where the records of a stored member begin in the file: after its own header, which has lengths of its own."""
    with file.open("rb") as opened:
        opened.seek(info.header_offset)
        local = opened.read(30)
    lengths = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    return info.header_offset + 30 + lengths + header.size


@contextmanager
def zip_errors(where: str) -> Iterator[None]:
    """What reading a damaged zip file raises, as a ValueError that says where."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error) as error:
        raise ValueError(f"{where}: damaged, or of a kind that can't be read: {error}") from error
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(f"{where}: {error}") from error


def members(opened: zipfile.ZipFile, archive: Archive, said: Any, refused: dict[str, str]) -> list[Member]:
    """The arrays of a file, voids as the dtypes that they are `said` to be; those that can't be streams are told in `refused`."""
    found: list[Member] = []
    file = archive.file
    for info in opened.infolist():
        name, where = info.filename.removesuffix(END), f"{file}: array {info.filename.removesuffix(END)!r}"
        if info.is_dir():
            continue
        try:
            if not info.filename.endswith(END):
                raise ValueError(f"{file}: {info.filename!r} is no array")
            with zip_errors(where), opened.open(info) as stream:
                header = header_of(stream, where)
            if isinstance(said, Mapping) or header.nameless:
                header = as_said(header, said.get(name) if isinstance(said, Mapping) else said, where)
            found.append(Member(archive, info, header, where))
        except ValueError as error:
            refused[name] = str(error)
    return found


def source(
    files: Sequence[Path], *, only: Sequence[str] | None = None, dtype: Any | Mapping[str, Any] = None
) -> AlignedSource:
    """The arrays of all files. `dtype`: what voids are, all of them or by the names of arrays."""
    refused: dict[str, str] = {}
    tables: list[list[Member]] = []
    archives = [Archive(file) for file in files]
    for archive in archives:
        with zip_errors(str(archive.file)):
            opened = zipfile.ZipFile(archive.file)
        with opened:
            tables.append(members(opened, archive, dtype, refused))
            check_said(dtype, archive.file, tables[-1], refused)
    return AlignedSource(files, tables, refused, only, partial(closed, archives))


def check_said(said: Any, file: Path, members: Sequence[Member], refused: Iterable[str]) -> None:
    """ValueError for a dtype of an array that isn't there, or of none."""
    names = [*(one.spec.name for one in members), *refused]
    unknown = [name for name in said if name not in names] if isinstance(said, Mapping) else []
    if unknown:
        raise ValueError(f"{file}: dtype: expected some of the arrays {names}, found {unknown}")
    if said is not None and not isinstance(said, Mapping) and all(one.spec.dtype != storable(said) for one in members):
        raise ValueError(f"{file}: dtype: expected a void of the width of {described(storable(said))}, found none")


def closed(archives: Sequence[Archive]) -> None:
    """Let go of all files."""
    for archive in archives:
        archive.close()


FORMAT = Format("npz", "NumPy .npz", lambda path: one_split(path, with_suffix(path, [".npz"])), source)
