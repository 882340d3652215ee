"""The header of a store, as far as plain version 3 has it: `meta.zr` in `docs/format.md`. No I/O."""

from __future__ import annotations

import struct

from loaderx.older import META

FILE = META
MAGIC, VERSION = b"ZREC", 3
PLAIN = struct.Struct("<4sBBIIQ")
"""Magic, version, codec, tail chunk, tail offset and length; what follows is reserved, and zero where a plain writer made the store."""
RESERVED = 10


def plain(codec: int, tail: tuple[int, int], length: int) -> bytes:
    """The header of a plain store. `tail`: the chunk that is appended to, and the first free byte in it."""
    return PLAIN.pack(MAGIC, VERSION, codec, *tail, length) + bytes(RESERVED)


def made_plain(header: bytes) -> bytes:
    """A header without what stands in its reserved bytes."""
    return header[: PLAIN.size].ljust(len(header), b"\0")


def length_in(header: bytes) -> int | None:
    """The number of live records that a header states; None where it is too short for one."""
    if len(header) < PLAIN.size:
        return None
    *_, length = PLAIN.unpack_from(header)
    return int(length)
