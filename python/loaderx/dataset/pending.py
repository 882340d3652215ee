"""A change to several streams that is under way: `pending.msgpack`, described in `docs/format.md`.

It is written before the first stream is changed and removed after the last one is, so whoever finds it knows what is left to do.
"""

from __future__ import annotations

import contextlib
import errno
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from loaderx._core import read_small_file, replace_file
from loaderx.dataset.index import Indices
from loaderx.dataset.schema import broken, shown, typed, unpack
from loaderx.dataset.streams import names_a_child
from loaderx.zrecord import CorruptStoreError, Zrecord, ZrecordError

FILE = "pending.msgpack"
FORMAT = "loaderx-pending"
VERSION = 1
SIZE_LIMIT = 1 << 31
"""What `read_small_file` reads."""
GENERATIONS = 1 << 32


@dataclass(frozen=True)
class Delete:
    """Records that are to go from every stream.

    `length`: of every stream before. `indices`: ascending, each once, at least one. `generations`: of each stream before; its own
    delete raises it by one.
    """

    length: int
    indices: Indices
    generations: Mapping[str, int]

    def encode(self) -> bytes:
        """The content of the file. ValueError if it is too large."""
        change = msgpack.packb(
            {
                "operation": "delete",
                "length": self.length,
                "indices": self.indices.astype("<u8").tobytes(),
                "streams": dict(self.generations),
            }
        )
        content: bytes = msgpack.packb(
            {"format": FORMAT, "version": VERSION, "change": change, "crc32": zlib.crc32(change)}
        )
        if len(content) > SIZE_LIMIT:
            raise ValueError(f"delete: {len(self.indices)} records are too many for one call")
        return content

    def waiting(self, directory: Path, stores: Mapping[str, Zrecord]) -> list[str]:
        """The streams that still have to delete. CorruptStoreError for one that neither has done so nor is as it was before."""
        names = []
        for name, before in self.generations.items():
            after, left = (before + 1) % GENERATIONS, self.length - len(self.indices)
            state = (len(stores[name]), stores[name].generation)
            if state == (self.length, before):
                names.append(name)
            elif state != (left, after):
                raise CorruptStoreError(
                    f"{directory / FILE}: an unfinished delete: expected stream {name!r} with {self.length} records at generation "
                    f"{before} (not deleted yet) or {left} at generation {after} (deleted), found {state[0]} at generation {state[1]}: "
                    "it was changed on its own meanwhile, and whether record i of all streams still belongs together can't be told. "
                    "Make them so, and remove the file"
                )
        return names


def decode(content: bytes, file: Path) -> Delete:
    """The change that `content` states; `file` is named in errors. CorruptStoreError if it states none: it is never guessed."""
    values = unpack(content, file)
    if values.get("format") != FORMAT:
        broken(file, f"format = {FORMAT!r}", f"format = {shown(values.get('format'))}")
    version = typed(values, "version", int, file)
    if version != VERSION:
        raise ZrecordError(
            f"{file}: this release reads version {VERSION} of unfinished changes, found version {version}"
        )
    change = typed(values, "change", bytes, file)
    expected = typed(values, "crc32", int, file)
    if zlib.crc32(change) != expected:
        broken(file, f"a change with the CRC-32 {expected:#010x}", f"{zlib.crc32(change):#010x}")
    values = unpack(change, file)
    if values.get("operation") != "delete":
        raise ZrecordError(
            f"{file}: this release finishes deletes, found an unfinished {shown(values.get('operation'))}"
        )
    length = typed(values, "length", int, file)
    indices = stated_indices(typed(values, "indices", bytes, file), length, file)
    return Delete(length, indices, stated_generations(typed(values, "streams", dict, file), file))


def stated_indices(content: bytes, length: int, file: Path) -> Indices:
    """Ascending indices below `length`, each once, at least one."""
    if len(content) % 8 != 0:
        broken(file, "indices of 8 bytes each", f"{len(content)} bytes")
    indices = np.frombuffer(content, "<u8").astype(np.uint64)
    if indices.size == 0 or (indices[1:] <= indices[:-1]).any() or int(indices[-1]) >= length:
        broken(file, f"ascending indices below {length}", shown(indices.tolist()[:20]))
    return indices


def stated_generations(streams: Mapping[Any, Any], file: Path) -> dict[str, int]:
    """The generation of each stream, at least one."""
    for name, generation in streams.items():
        if not isinstance(name, str) or not names_a_child(name):
            broken(file, "names of child directories", shown(name))
        if type(generation) is not int or not 0 <= generation < GENERATIONS:
            broken(file, f"a generation of stream {name!r}", shown(generation))
    if not streams:
        broken(file, "at least one stream", "none")
    return dict(streams)


def read(directory: Path) -> bytes | None:
    """The content of the file; None if no change is under way."""
    try:
        return read_small_file(directory / FILE)
    except FileNotFoundError:
        return None


def write(directory: Path, change: Delete) -> None:
    """State a change, durably."""
    replace_file(directory / FILE, change.encode())


def remove(directory: Path) -> None:
    """The change is done, or was not begun. Durable: a file that a power cut brought back would tell of what is long past."""
    (directory / FILE).unlink(missing_ok=True)
    tidy(directory)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems offer no sync of directories
            raise
    finally:
        os.close(descriptor)


def tidy(directory: Path) -> None:
    """Remove what a process left that was killed before it had stated anything. The caller is the writer of the streams."""
    with contextlib.suppress(OSError):
        (directory / f"{FILE}.tmp").unlink()
