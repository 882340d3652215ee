"""Bytes of files: ranges of them, and what is inflated on the way."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from loaderx.converters.source import Array

MAGICS = {
    "gzip": b"\x1f\x8b",
    "bzip2": b"BZh",
    "xz": b"\xfd7zXZ\0",
    "zstd": b"\x28\xb5\x2f\xfd",
}
STEP = 1 << 20


def read_range(file: Path, offset: int, size: int) -> Array:
    """So many bytes of a file, shape (size,). OSError where it ends before."""
    array = np.empty(size, np.uint8)
    view = array.data
    with file.open("rb", buffering=0) as stream:
        stream.seek(offset)
        done = 0
        while done < size:
            count = stream.readinto(view[done:])
            if not count:
                raise OSError(
                    f"{file}: expected {size} bytes from byte {offset} on, found the end of the file after {done}"
                )
            done += count
    return array


def beginning(file: Path, size: int) -> bytes:
    """The first bytes of a file; fewer where it ends, none where it can't be read."""
    try:
        with file.open("rb", buffering=0) as stream:
            return stream.read(size) or b""
    except OSError:
        return b""


def compression_of(file: Path) -> str | None:
    """How a file is compressed, by its first bytes. None if not."""
    start = beginning(file, 6)
    return next((name for name, magic in MAGICS.items() if start.startswith(magic)), None)


class Inflated:
    """The content of a compressed file, from its beginning to its end."""

    def __init__(self, file: Path, compression: str) -> None:
        self._file, self._compression = file, compression
        self._raw = file.open("rb")
        try:
            self._stream = OPENERS[compression](self._raw)
        except BaseException:
            self._raw.close()
            raise
        self.position = 0

    def read(self, size: int) -> bytes:
        """So many bytes, or up to the end. Memory grows only with what is there. ValueError for damaged data."""
        pieces: list[bytes] = []
        while size > 0:
            piece = self._piece(min(size, STEP))
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def skip_to(self, position: int) -> None:
        """Read on up to `position`; ValueError where the end comes before."""
        while self.position < position:
            if not self._piece(min(position - self.position, STEP)):
                raise ValueError(f"{self._file}: expected {position} bytes once inflated, found {self.position}")

    def exactly(self, size: int) -> Array:
        """So many bytes, shape (size,). ValueError where the end comes before."""
        content = self.read(size)
        if len(content) < size:
            raise ValueError(f"{self._file}: expected {size} more bytes once inflated, found {len(content)}")
        return np.frombuffer(content, np.uint8)

    def _piece(self, size: int) -> bytes:
        try:
            piece: bytes = self._stream.read(size)
        except Exception as error:  # packages have classes of their own
            raise ValueError(
                f"{self._file}: it can't be inflated after {self.position} bytes ({self._compression}): {error}"
            ) from error
        self.position += len(piece)
        return piece

    def close(self) -> None:
        """Close the file."""
        self._raw.close()


class ZlibStream:
    """What `zlib` alone has no file for."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._decoder = raw, zlib.decompressobj()

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end."""
        while not self._decoder.eof:
            pending = self._decoder.unconsumed_tail or self._raw.read(STEP)
            if not pending:
                raise EOFError("it ends in the midst of its data")
            piece = self._decoder.decompress(pending, size)
            if piece:
                return piece
        if self._decoder.unused_data or self._raw.read(1):
            raise ValueError("there is more after its end")
        return b""


def zstd_stream(raw: IO[bytes]) -> Any:
    """A reader of zstd frames: of Python 3.14, or of the package zstandard."""
    try:
        from compression import zstd  # type: ignore[import-not-found, unused-ignore]

        return zstd.ZstdFile(raw)
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError as error:
        raise ImportError(f"files compressed with zstd need Python 3.14 or the package zstandard: {error}") from error
    return zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)


OPENERS: dict[str, Callable[[IO[bytes]], Any]] = {
    "gzip": lambda raw: gzip.GzipFile(fileobj=raw),
    "bzip2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zlib": ZlibStream,
    "zstd": zstd_stream,
}
