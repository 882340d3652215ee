"""Where a new store is made until all of it is there."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loaderx._core import Store
from loaderx.dataset.streams import found


@contextmanager
def unfinished(path: Path, *sources: Path) -> Iterator[Path]:
    """A directory beside `path`, to work in. If all went well, what is in it under `new` becomes `path`; it goes in any case.

    FileExistsError if there is something at `path`, ValueError if that is within a source, which stays as it is.
    """
    refuse_taken(path)
    for source in sources:
        if path.resolve().is_relative_to(source.resolve()):
            raise ValueError(f"{path}: expected a place outside of {source}, which stays as it is")
    parent = path.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    # Beside it, so that it is on the same disk.
    directory = Path(tempfile.mkdtemp(prefix=f".{path.name}.unfinished-", dir=parent))
    try:
        yield directory
        put_in_place(directory / "new", path)
    finally:
        shutil.rmtree(directory)


def refuse_taken(path: Path) -> None:
    """FileExistsError if there is something at `path`."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "there is something already; choose another path or remove it", str(path))


def put_in_place(directory: Path, path: Path) -> None:
    """Give a directory on the same disk, which is complete, the name `path`, also after a power cut."""
    sync_directory(directory)
    directory.rename(path)
    sync_directory(path.absolute().parent)


def streams_of(path: Path) -> list[str]:
    """The names of the streams in a directory; none where it is a store itself, or nothing."""
    return [] if Store.exists(path) or not path.is_dir() else found(path)


def sync_directory(path: Path) -> None:
    """Make the names in a directory safe from a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
