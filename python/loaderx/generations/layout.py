"""The header and the record table of loaderx 0.5 to 1.4: bytes to numbers, and what can't be right about them. No I/O.

Both lie in `meta.zr`; `docs/exchange.md` has the layout.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loaderx.dataset.header import MAGIC
from loaderx.older import WRITERS

HEADER = struct.Struct("<4sBBHII")
ENTRY = np.dtype(
    [
        ("offset", "<u4"),
        ("stored", "<u4"),
        ("logical", "<u4"),
        ("chunk", "<u2"),
        ("codec", "u1"),
        ("reserved", "u1"),
    ]
)
MAX_LENGTH = 2**24
MAX_CHUNKS = 2**12
MAX_CHUNK = 2**32
MAX_RECORD = 2**20
FRAME_OVERHEAD = 1024
"""A zstd frame is longer than its record by less than a 128th of it and this."""

RAW, COMPRESSED, WITH_DICTIONARY = 0, 1, 2
"""Codecs as header and entries name them. Compressed is deflate in 0.5, zstd in all others."""

CODEC_IN_HEADER = 2
"""The version whose records all have the codec of the header; in the others each entry has its own."""

Table = npt.NDArray[np.void]
"""Entries, dtype ENTRY, shape (n,)."""


class Header(NamedTuple):
    """The first 16 bytes of `meta.zr`."""

    version: int
    codec: int
    tail_chunk: int
    tail_offset: int
    length: int


class BadEntry(ValueError):  # noqa: N818 - it is one, and says which
    """An entry that can't be right: its place among those that were looked at, and why."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at


def decode_header(content: bytes) -> Header:
    """The header. ValueError that says what about the bytes can't be right."""
    if len(content) < HEADER.size or content[:4] != MAGIC:
        raise ValueError(f"expected a header of {HEADER.size} bytes that begins with {MAGIC!r}, found {content[:16]!r}")
    header = Header(*HEADER.unpack_from(content)[1:])
    if header.version not in WRITERS:
        raise ValueError(f"expected version {', '.join(map(str, WRITERS))}, found version {header.version}")
    if header.codec > (WITH_DICTIONARY if header.version == CODEC_IN_HEADER else RAW):
        raise ValueError(f"version {header.version} has no codec {header.codec}")
    if header.length > MAX_LENGTH:
        raise ValueError(f"expected at most {MAX_LENGTH} records, found {header.length}")
    if header.tail_chunk >= MAX_CHUNKS:
        raise ValueError(f"expected a last chunk below {MAX_CHUNKS}, found {header.tail_chunk}")
    return header


def codecs_of(header: Header, entries: Table) -> npt.NDArray[np.uint8]:
    """The codec of each record, shape (n,)."""
    if header.version == CODEC_IN_HEADER:
        return np.full(len(entries), header.codec, np.uint8)
    return entries["codec"]


def check_entries(header: Header, entries: Table, chunk_sizes: npt.NDArray[np.int64]) -> None:
    """Whether each entry can be that of a record; BadEntry for the first that can't. `chunk_sizes`: shape (tail_chunk + 1,)."""
    stored, logical = entries["stored"].astype(np.int64), entries["logical"].astype(np.int64)
    chunk, codec = entries["chunk"].astype(np.int64), codecs_of(header, entries)
    inside = chunk < len(chunk_sizes)
    room = chunk_sizes[np.where(inside, chunk, 0)]
    # Where each record has a codec, one that would not shrink is stored raw.
    most = logical + logical // 128 + FRAME_OVERHEAD if header.version == CODEC_IN_HEADER else logical - 1
    faults = {
        f"codec {RAW}, {COMPRESSED} or {WITH_DICTIONARY}": codec > WITH_DICTIONARY,
        f"a chunk below {len(chunk_sizes)}": ~inside,
        "its end within the chunk": entries["offset"].astype(np.int64) + stored > room,
        f"a length of at most {MAX_RECORD}": logical > MAX_RECORD,
        "as many bytes stored as it is long, being raw": (codec == RAW) & (stored != logical),
        "fewer bytes stored, being compressed": (codec != RAW) & (stored > most),
    }
    for expected, bad in faults.items():
        if bad.any():
            at = int(np.argmax(bad))
            one = entries[at]
            raise BadEntry(
                at,
                f"expected {expected}, found codec {codec[at]}, chunk {one['chunk']}, offset {one['offset']}, "
                f"{one['stored']} bytes stored, length {one['logical']}",
            )
