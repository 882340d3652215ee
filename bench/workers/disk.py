"""What is done to the files of a store: sync them, measure them, drop them from the page cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def files(path: Path) -> Iterator[Path]:
    return (file for file in path.rglob("*") if file.is_file())


def sync(path: Path) -> None:
    for file in files(path):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())


def allocated(path: Path) -> int:
    """Allocated blocks, not file lengths: a store may preallocate sparse files."""
    return sum(file.stat().st_blocks * 512 for file in files(path))


def drop_cache(path: Path) -> None:
    """Take the files out of the page cache. They must be synced, and nobody may have them mapped."""
    for file in files(path):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_bytes() -> int:
    """What this process has had read from a disk until now."""
    for line in Path("/proc/self/io").read_text().splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    raise OSError("/proc/self/io does not say what was read")
