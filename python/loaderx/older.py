"""Stores of other releases that are told from all others, and not opened as one of them: those of loaderx 0.5 to 1.4, and of 2.

All have a `meta.zr`. That of 0.5 to 1.4 has the magic of today's too, and some have the version byte of version 3, but the rest lies
otherwise: an empty one passes for an empty store of version 3. So this is asked before a header is believed.
"""

from __future__ import annotations

import os
from pathlib import Path

from loaderx._core import ZrecordError

META = "meta.zr"
FIRST_CHUNK = "0.zr"
OLD_META_SIZE = 16 + 2**24 * 16
"""The length of each `meta.zr` of theirs, unless someone cut off the unused part."""

WRITERS = {1: "0.5 or 1.0", 2: "1.1 to 1.4", 3: "0.7 to 0.10"}
"""The releases that wrote a version byte. Those of version 1 differ in what compressed means, and in the schema's file."""


def is_older(path: Path) -> bool:
    """Whether there is such a store in the directory `path`. Asked at each opening, so without the detours of Path."""
    directory = os.fspath(path)
    meta = size_of(f"{directory}/{META}")
    if meta is None or meta == OLD_META_SIZE:
        return meta is not None
    return size_of(f"{directory}/{FIRST_CHUNK}") is not None and size_of(f"{directory}/0.chunk") is None


def is_version_2(path: Path) -> bool:
    """Whether there is a store of loaderx 2 in the directory `path`, which has no magic number: told by the names of its files."""
    directory = os.fspath(path)
    return size_of(f"{directory}/{data_file(0)}") is not None and size_of(f"{directory}/{META}") is not None


def data_file(number: int) -> str:
    """The name of a file of records of loaderx 2."""
    return f"data_{number}.zr"


def size_of(file: str) -> int | None:
    """The length of a file; None where there is none to be seen."""
    try:
        return os.stat(file).st_size  # noqa: PTH116
    except OSError:
        return None


def written_by(path: Path) -> str:
    """The releases that wrote such a store."""
    with (path / META).open("rb") as file:
        version = file.read(5)[-1:]
    if version == b"\x01" and (path / "schema.json").exists():
        return "loaderx 0.5"
    if version == b"\x01" and (path / "schema.msgpack").exists():
        return "loaderx 1.0"
    return "loaderx " + WRITERS.get(int.from_bytes(version, "little"), "0.5 to 1.4")


def refuse_older(path: Path) -> None:
    """ZrecordError that names the way out, if there is a store of 0.5 to 1.4, or of 2, in the directory `path`."""
    refuse_version_2(path)
    if is_older(path):
        raise ZrecordError(
            f"{path} is a store of {written_by(path)}, which is read only to be rewritten: loaderx.migrate({str(path)!r}, NEW), "
            "or `python -m loaderx migrate OLD NEW` in a shell, writes a new store and leaves this one as it is"
        )


def refuse_version_2(path: Path) -> None:
    """ZrecordError that names the way out, if there is a store of loaderx 2 in the directory `path`."""
    if is_version_2(path):
        raise ZrecordError(
            f"{path} is a store of loaderx 2, whose container is another one and is only read to be converted: "
            f"loaderx.convert({str(path)!r}, NEW) writes a new store and leaves this one as it is"
        )
