"""Files of TFRecord frames: where the records lie, by a walk over the frames, and reading them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from loaderx._core import MAX_RECORD_LEN, tfrecord_walk
from loaderx.converters.formats.ranges import Inflated, beginning, compression_of, read_range
from loaderx.converters.source import PART_BYTES, Array

HEADER = 12
FRAME = 16
WINDOW = 1 << 18


class Frames(NamedTuple):
    """Whole records in a buffer."""

    buffer: Array
    starts: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint64]
    offset: int
    """Where their frames begin in the file, once inflated."""
    end: int
    """Where they end."""
    first: int
    """The number of the first of them in the file."""

    def after(self, count: int) -> Frames:
        """Without the first `count`."""
        return self._replace(starts=self.starts[count:], lengths=self.lengths[count:], first=self.first + count)


class Stretch(NamedTuple):
    """Where some neighbouring records lie in a file, once inflated."""

    offset: int
    end: int
    first: int
    records: int


def has_header(content: bytes) -> bool:
    """Whether bytes begin with a length and its checksum."""
    try:
        return len(tfrecord_walk(content[:HEADER], 0, False)[0]) == 1
    except ValueError:
        return False


def compression(file: Path) -> str | None:
    """How a file is compressed. None if not."""
    start = beginning(file, HEADER)
    if not start or has_header(start):
        return None
    if start[0] == 0x78 and len(start) > 1 and int.from_bytes(start[:2], "big") % 31 == 0:
        return "zlib"
    return compression_of(file)


def read_frames(file: Path, how: str | None) -> Iterator[Frames]:
    """All records of a file, about PART_BYTES at once, with their checksums checked. ValueError for a damaged or cut file."""
    pending, offset, first = b"", 0, 0
    with closing(Inflated(file, how) if how else file.open("rb")) as stream:
        wanted = 0
        while True:
            if wanted - FRAME > MAX_RECORD_LEN:
                raise ValueError(
                    f"{file}: the record at byte {offset}: it says that it has {wanted - FRAME} bytes; "
                    f"a record has at most {MAX_RECORD_LEN}"
                )
            more = bounded(stream, max(PART_BYTES, wanted - len(pending)))
            content = pending + more
            starts, lengths, end, wanted = walked(file, content, offset, data=True)
            if len(starts):
                yield Frames(np.frombuffer(content, np.uint8), starts, lengths, offset, offset + end, first)
            pending, offset, first = content[end:], offset + end, first + len(starts)
            if not more:
                break
    if pending:
        raise ValueError(
            f"{file}: the record at byte {offset} is cut: found the end of the file after {len(pending)} bytes of it"
        )


class Readable(Protocol):
    """What bytes are read of."""

    def read(self, size: int, /) -> bytes:
        """At most so many."""


def bounded(stream: Readable, size: int) -> bytes:
    """So many bytes, or up to the end; memory grows with what is there."""
    pieces: list[bytes] = []
    while size > 0:
        piece = stream.read(min(size, PART_BYTES))
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def stretches(file: Path) -> list[Stretch]:
    """Where the records of a file that is not compressed lie, about PART_BYTES at once. Only lengths are read, and checked."""
    size = file.stat().st_size
    found: list[Stretch] = []
    offset = begin = first = records = 0
    while offset < size:
        window = read_range(file, offset, min(WINDOW, size - offset))
        starts, lengths, end, _ = walked(file, window, offset, data=False)
        if not len(starts):
            raise ValueError(f"{file}: the record at byte {offset} is cut: found the end of the file in its header")
        ends = offset + (starts + lengths).astype(np.int64) + 4
        if ends[-1] > size:
            raise ValueError(
                f"{file}: the record at byte {offset + int(starts[-1]) - HEADER} is cut: "
                f"it should end at byte {ends[-1]}, and the file ends at {size}"
            )
        while (stop := int(np.searchsorted(ends, begin + PART_BYTES))) < len(ends):
            found.append(Stretch(begin, int(ends[stop]), first, records + stop + 1 - first))
            begin, first = int(ends[stop]), records + stop + 1
        records += len(ends)
        offset += end
    if records > first:
        found.append(Stretch(begin, size, first, records - first))
    return found


def stretch_at(file: Path, stretch: Stretch, content: Array) -> Frames:
    """The records of a stretch, whose bytes were read. ValueError if they are damaged, or others than before."""
    starts, lengths, end, _ = walked(file, content, stretch.offset, data=True)
    if (len(starts), end) != (stretch.records, stretch.end - stretch.offset):
        raise ValueError(
            f"{file}: expected {stretch.records} records from byte {stretch.offset} on, found {len(starts)}; it was changed meanwhile"
        )
    return Frames(content, starts, lengths, stretch.offset, stretch.end, stretch.first)


def walked(
    file: Path, content: bytes | Array, offset: int, data: bool
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], int, int]:
    """As `tfrecord_walk`; errors name the file."""
    try:
        return tfrecord_walk(content, offset, data)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
