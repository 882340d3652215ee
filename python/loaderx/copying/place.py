"""Where a new store is made until all of it is there."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loaderx._core import Store
from loaderx.dataset.streams import found

LONGEST_NAME = 200
"""Bytes of a name that are repeated in that of the directory beside it: file systems take 255 in all."""


@contextmanager
def unfinished(path: Path, *sources: Path) -> Iterator[Path]:
    """A directory beside `path`, to work in. If all went well, what is in it under `new` becomes `path`; it goes in any case.

    If not, parents that were made go too. FileExistsError if there is something at `path`, ValueError if that is within a source, which
    stays as it is; OSError if nothing can have this name.
    """
    refuse_taken(path)
    for source in sources:
        if path.resolve().is_relative_to(source.resolve()):
            raise ValueError(f"{path}: expected a place outside of {source}, which stays as it is")
    parent = path.absolute().parent
    with parents(parent):
        # Beside it, so that it is on the same disk.
        directory = Path(tempfile.mkdtemp(prefix=f".{shortened(path.name)}.unfinished-", dir=parent))
        try:
            yield directory
            put_in_place(directory / "new", path)
        finally:
            shutil.rmtree(directory)


@contextmanager
def parents(directory: Path) -> Iterator[None]:
    """The directory, made with those above it; if what is done meanwhile fails, those that were made go as far as they are empty."""
    made = [each for each in (directory, *directory.parents) if not each.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):
            for each in made:
                if each.exists():
                    each.rmdir()
        raise


def taken(path: Path) -> FileExistsError:
    """The error of a destination that is there."""
    return FileExistsError(
        errno.EEXIST, "there is something already; choose another path or remove it", os.fspath(path)
    )


def shortened(name: str) -> str:
    """As much of a name as leaves room for more."""
    while len(os.fsencode(name)) > LONGEST_NAME:
        name = name[:-1]
    return name


def shortened_apart(name: str) -> str:
    """As `shortened`, but no two names become the same."""
    short = shortened(name)
    return short if short == name else f"{short}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


def refuse_taken(path: Path) -> None:
    """FileExistsError if there is something at `path`; OSError if nothing can have this name."""
    with suppress(FileNotFoundError):
        path.lstat()
        raise taken(path)


def put_in_place(directory: Path, path: Path) -> None:
    """Give a directory on the same disk, which is complete, the name `path`, also after a power cut.

    FileExistsError if somebody else has put something there meanwhile.
    """
    sync_directory(directory)
    try:
        directory.rename(path)
    except OSError as error:
        if os.path.lexists(path):
            raise taken(path) from error
        raise
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
