"""A naive writer of stores of loaderx 2.8, for what no release would write, or where none is installed."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from loaderx.zrecord import Zrecord
from support import Array

HEAD = struct.Struct("<QHBBI")
CODECS = ("raw", "zstd", "zstd_dict")


def write(
    path: Path,
    records: Sequence[Array] | Array,
    dtype: str,
    shape: dict[str, Any],
    *,
    codec: str = "raw",
    shards: int = 4,
    dictionary: bytes | None = None,
    gap: int = 0,
) -> Path:
    """`shape`: {"item_shape": ...} or {"ndim": ...}. `gap`: so many bytes before each record in its file that are nobody's."""
    path.mkdir(parents=True)
    contents = [plain(record, "ndim" in shape) for record in records]
    stored = frames(path, contents, codec, dictionary)
    files, table = [bytearray() for _ in range(shards)], bytearray()
    for at, (content, bytes_of_it) in enumerate(zip(contents, stored, strict=True)):
        file = files[at % shards]
        file += bytes(gap)
        table += struct.pack("<QII", len(file), len(bytes_of_it), len(content))
        file += bytes_of_it
    schema = json.dumps({"dtype": dtype, **shape}).encode()
    header = HEAD.pack(len(contents), len(schema), shards, CODECS.index(codec), 0)
    header += b"".join(struct.pack("<Q", len(file)) for file in files)
    (path / "meta.zr").write_bytes((header.ljust(2056, b"\0") + schema).ljust(4096, b"\0") + table)
    for at, file in enumerate(files):
        (path / f"data_{at}.zr").write_bytes(file)
    if dictionary is not None:
        (path / "dict.zr").write_bytes(dictionary)
    return path


def plain(record: Array, ragged: bool) -> bytes:
    """What a record is before it is compressed: a ragged one has its shape in front."""
    prefix = np.array(record.shape, "<u4").tobytes() if ragged else b""
    return prefix + record.tobytes()


def frames(path: Path, contents: Sequence[bytes], codec: str, dictionary: bytes | None) -> list[bytes]:
    """The records as a store of today has them: as they are, or as zstd frames."""
    if not contents:
        return []
    scratch = path.with_name(f"{path.name}-frames")
    with Zrecord(scratch, codec) as store:
        if dictionary is not None:
            store.install_dict(dictionary)
        lengths = np.array([len(content) for content in contents], np.uint64)
        store.append(np.frombuffer(b"".join(contents), np.uint8), np.cumsum(lengths) - lengths)
    entries = np.frombuffer((scratch / "0.loc").read_bytes(), "<u4").reshape(-1, 4)[: len(contents)]
    chunk = (scratch / "0.chunk").read_bytes()
    return [chunk[offset : offset + length] for offset, length, _, _ in entries.tolist()]
