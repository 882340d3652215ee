"""Where the record batches of an Arrow IPC file or stream lie: its messages are walked from header to header."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

FILE_MAGIC = b"ARROW1"
FEATHER_1 = b"FEA1"
CONTINUATION = 0xFFFFFFFF
HEADER_LIMIT = 1 << 28
DICTIONARY, BATCH = 2, 3


class Message(NamedTuple):
    """A message that is no schema."""

    offset: int
    size: int
    """The bytes of its header and body."""
    kind: int
    rows: int
    """Of a record batch."""


def messages(path: Path) -> Iterator[Message]:
    """The dictionary and record batches of a file, in their order. ValueError where it isn't one or is cut."""
    size = path.stat().st_size
    with path.open("rb") as file:
        at = 8 if file.read(6) == FILE_MAGIC else 0
        while at < size:
            head, length = header(file, at, path)
            if length == 0:
                return
            if length > HEADER_LIMIT:
                raise ValueError(f"{path}: expected the length of a message at byte {at}, found {length}")
            content = file.read(length)
            try:
                kind, body, rows = described(content)
            except (struct.error, IndexError) as error:
                raise ValueError(f"{path}: the message at byte {at} can't be understood: {error}") from error
            end = at + head + length + body
            if body < 0 or rows < 0 or end > size:
                raise ValueError(f"{path}: cut: the message at byte {at} ends at byte {end}, and the file at {size}")
            if kind in (DICTIONARY, BATCH):
                yield Message(at, end - at, kind, rows)
            at = end


def header(file: IO[bytes], at: int, path: Path) -> tuple[int, int]:
    """The bytes before a message's header, and those of it; 0 at the end."""
    file.seek(at)
    start = file.read(8)
    if len(start) < 4:
        raise ValueError(f"{path}: cut: it ends at byte {at + len(start)} in the midst of a message")
    first = int.from_bytes(start[:4], "little")
    if first != CONTINUATION:
        file.seek(at + 4)
        return 4, first  # as Arrow wrote it before 0.15
    return 8, int.from_bytes(start[4:8], "little")


def described(content: bytes) -> tuple[int, int, int]:
    """The kind of a message, the length of its body, and the rows of a record batch: three fields of a flatbuffer.

    struct.error where it isn't one.
    """
    table = int.from_bytes(content[:4], "little")
    kind_at, inner_at, body_at = (field(content, table, number) for number in (1, 2, 3))
    kind = content[kind_at] if kind_at else 0
    (body,) = struct.unpack_from("<q", content, body_at) if body_at else (0,)
    rows = 0
    if kind == BATCH and inner_at:
        (relative,) = struct.unpack_from("<I", content, inner_at)
        rows_at = field(content, inner_at + relative, 0)
        (rows,) = struct.unpack_from("<q", content, rows_at) if rows_at else (0,)
    return kind, body, rows


def field(content: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table lies; 0 where it has its default."""
    (back,) = struct.unpack_from("<i", content, table)
    if not 0 <= table - back <= len(content):
        raise struct.error(f"a table of fields at {table - back}")
    (size,) = struct.unpack_from("<H", content, table - back)
    if 4 + 2 * number >= size:
        return 0
    (offset,) = struct.unpack_from("<H", content, table - back + 4 + 2 * number)
    return table + int(offset) if offset else 0
