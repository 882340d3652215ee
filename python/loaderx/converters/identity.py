"""What a source is known by: a conversion that was cut goes on only with the source that it began with."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from loaderx.converters.source import Source

Identity: TypeAlias = Callable[[], "str | None"]
"""Asked for at the start and in the end: the same text for as long as the source gives the same records, also in another process.

None where nothing tells that."""


def unknown() -> None:
    """The identity of a source that nothing tells from others."""


def identity_of(source: Source) -> str | None:
    """That of its files, where it reads some; else what its attribute `identity` says, which those have that are in memory."""
    if source.files:
        return fingerprint(source.files)
    stated: Identity = getattr(source, "identity", unknown)
    return stated()


def fingerprint(files: Sequence[Path]) -> str:
    """A digest of names, sizes and times of change."""
    text = hashlib.sha256()
    for file in files:
        status = file.stat()
        text.update(f"{file.absolute()}\0{status.st_size}\0{status.st_mtime_ns}\0".encode(errors="surrogateescape"))
    return text.hexdigest()


def read_once(source: Source) -> bool:
    """Whether it gives its records a single time; it says so by its attribute `once`."""
    once: bool = getattr(source, "once", False)
    return once
