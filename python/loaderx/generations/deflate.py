"""Records that loaderx 0.5 compressed: raw deflate streams, without the header and the checksum of zlib's own format."""

from __future__ import annotations

import zlib

from loaderx.zrecord import Bytes

RAW_STREAM = -zlib.MAX_WBITS


def inflate(stored: Bytes, length: int) -> bytes:
    """The record of `length` bytes whose stream is `stored`. ValueError if it isn't; little more memory than that in any case."""
    decoder = zlib.decompressobj(RAW_STREAM)
    try:
        # One byte more shows a stream that is longer, and lets one that isn't come to its end.
        record = decoder.decompress(stored, length + 1)
    except zlib.error as error:
        raise ValueError(f"expected a deflate stream: {error}") from error
    if len(record) != length:
        raise ValueError(f"expected {length} bytes, found {'more' if len(record) > length else len(record)}")
    if not decoder.eof or decoder.unused_data:
        raise ValueError(f"expected a deflate stream of {len(stored)} bytes, found one of another length")
    return record
