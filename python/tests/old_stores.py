"""A naive writer of stores of loaderx 0.5 to 1.4, for what no release would write."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

HEADER = struct.Struct("<4sBBHII")
ENTRY = struct.Struct("<IIIHBB")


def deflated(record: bytes) -> bytes:
    """A raw deflate stream."""
    encoder = zlib.compressobj(9, zlib.DEFLATED, -15)
    return encoder.compress(record) + encoder.flush()


def write(
    path: Path, records: Sequence[bytes], *, version: int = 1, codec: int = 1, chunk: int = 2**32, header_codec: int = 0
) -> Path:
    """A store of raw records, or of deflated ones where that makes them smaller; of each chunk `chunk` bytes are used at most."""
    path.mkdir()
    chunks, entries = [bytearray()], bytearray()
    for record in records:
        stored, used = record, 0
        if codec and len(deflated(record)) < len(record):
            stored, used = deflated(record), codec
        if len(chunks[-1]) + len(stored) > chunk:
            chunks.append(bytearray())
        entries += ENTRY.pack(len(chunks[-1]), len(stored), len(record), len(chunks) - 1, used, 0)
        chunks[-1] += stored
    header = HEADER.pack(b"ZREC", version, header_codec, len(chunks) - 1, len(chunks[-1]), len(records))
    (path / "meta.zr").write_bytes(header + entries)
    for number, content in enumerate(chunks):
        (path / f"{number}.zr").write_bytes(content)
    return path
