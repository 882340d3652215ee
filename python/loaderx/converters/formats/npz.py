"""NumPy's `.npz`: several arrays of equally many records in a zip file."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from loaderx.converters.aligned import AlignedSource, Read
from loaderx.converters.finding import with_suffix
from loaderx.converters.formats.npyfile import Header, InFile, filled, header_of
from loaderx.converters.source import Array, Format, StreamSpec
from loaderx.dataset.dtypes import contiguous, opaque

END = ".npy"


class Member:
    """One array of a file."""

    sequential = True

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: Header, where: str) -> None:
        name = info.filename.removesuffix(END)
        self.spec = StreamSpec(name, "dense", header.dtype, header.item_shape, f"array {name!r}")
        self.rows, self.chunk, self.row_bytes = header.shape[0], 1, header.item_bytes
        deflated = info.compress_type != zipfile.ZIP_STORED
        scattered = header.fortran and len(header.shape) > 1
        self._archive, self._info, self._header, self._where = archive, info, header, where
        self._streams: list[IO[bytes]] = []
        self._scattered: InFile | None = None
        if scattered and not deflated:
            self._scattered = InFile(Path(str(archive.filename)), offset_of(archive, info, header), header, where)
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

    def close(self) -> None:
        """Let go of the readers, which keep the file open."""
        for stream in self._streams:
            stream.close()

    def _opened(self, start: int) -> IO[bytes]:
        with zip_errors(self._where):
            stream = self._archive.open(self._info)
            self._streams.append(stream)
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
        return contiguous(records)


def offset_of(archive: zipfile.ZipFile, info: zipfile.ZipInfo, header: Header) -> int:
    """Where the records of a stored member begin in the file: after its own header, which has lengths of its own."""
    with Path(str(archive.filename)).open("rb") as file:
        file.seek(info.header_offset)
        local = file.read(30)
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


def members(archive: zipfile.ZipFile, file: Path, refused: dict[str, str]) -> list[Member]:
    """The arrays of a file; those that can't be streams are told in `refused`."""
    found: list[Member] = []
    for info in archive.infolist():
        name, where = info.filename.removesuffix(END), f"{file}: array {info.filename.removesuffix(END)!r}"
        if info.is_dir():
            continue
        try:
            if not info.filename.endswith(END):
                raise ValueError(f"{file}: {info.filename!r} is no array")
            with zip_errors(where), archive.open(info) as stream:
                header = header_of(stream, where)
            found.append(Member(archive, info, header, where))
        except ValueError as error:
            refused[name] = str(error)
    return found


def source(files: Sequence[Path], *, only: Sequence[str] | None = None) -> AlignedSource:
    """The arrays of all files."""
    with ExitStack() as stack:
        refused: dict[str, str] = {}
        tables = []
        for file in files:
            with zip_errors(str(file)):
                archive = stack.enter_context(zipfile.ZipFile(file))
            tables.append(members(archive, file, refused))
            for member in tables[-1]:
                stack.callback(member.close)
        return AlignedSource(files, tables, refused, only, stack.pop_all().close)


FORMAT = Format("npz", "NumPy .npz", lambda path: with_suffix(path, [".npz"]), source)
