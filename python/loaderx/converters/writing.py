"""The streams that a conversion writes, in a directory beside the destination until they are complete."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from loaderx._core import Store
from loaderx.closing import Closing
from loaderx.converters import job
from loaderx.converters.encoding import Encoding
from loaderx.converters.source import ITSELF, Block, StreamSpec
from loaderx.copying.place import parents, put_in_place, refuse_taken, shortened_apart
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.dataset.streams import KINDS, found
from loaderx.zrecord import StoreLockedError, Zrecord, ZrecordError

NEW = "new"
LOCK = "lock"
"""Held by the one conversion that works in the directory: another must not take it for what a cut has left, and remove it."""


def directory_for(path: Path) -> Path:
    """Where a conversion to `path` is kept until it is complete: beside it, so that it is on the same disk."""
    return path.absolute().parent / f".{shortened_apart(path.name)}.converting"


def left_over(path: Path, description: Mapping[str, Any]) -> int:
    """How many records a call that was cut has written that this one goes on with. Nothing is changed."""
    directory = directory_for(path)
    if not directory.exists() or not job.known(description) or job.differences(directory, description):
        return 0
    return written_in(directory)


def written_in(directory: Path) -> int:
    """How many records of all streams a conversion has written there."""
    new = directory / NEW
    with suppress(OSError, ZrecordError):
        stores = [new] if Store.exists(new) else [new / name for name in found(new)]
        return min((records_in(store) for store in stores), default=0)
    return 0


def records_in(store: Path) -> int:
    """The number of records of a store."""
    with Zrecord(store, read_only=True) as opened:
        return len(opened)


@contextmanager
def under_way(path: Path, description: Mapping[str, Any], restart: bool) -> Iterator[Path]:
    """The directory to write in. If all goes well, it becomes `path`; else it stays, to go on from, once there are records in it.

    FileExistsError if there is something at `path`; StoreLockedError where another conversion to it is at work; ValueError for what is
    left of another one, unless `restart` removes it.
    """
    refuse_taken(path)
    directory = directory_for(path)
    with alone_in(directory, path):
        refuse_taken(path)  # another conversion may have ended just now
        if restart and (directory / NEW).exists():
            (directory / job.FILE).unlink(missing_ok=True)  # so that what a kill leaves of it is not gone on with
            shutil.rmtree(directory / NEW)
        begin(directory, path, description)
        try:
            yield directory / NEW
        except BaseException:
            if not written_in(directory):
                shutil.rmtree(directory / NEW, ignore_errors=True)
            raise
        put_in_place(directory / NEW, path)


@contextmanager
def alone_in(directory: Path, path: Path) -> Iterator[None]:
    """Make `directory`, and let no other conversion work in it meanwhile. StoreLockedError if one does.

    In the end it goes, unless something was written that is not moved away; where nothing is left, also parents that were made for it.
    """
    with parents(directory.parent):
        descriptor = locked(directory, path)
        try:
            yield
        finally:
            if not (directory / NEW).exists():
                shutil.rmtree(directory, ignore_errors=True)  # another one may make its lock file there just now
            os.close(descriptor)


def locked(directory: Path, path: Path) -> int:
    """The descriptor of the directory's lock file, locked until it is closed; by the system also where the process is killed."""
    while True:
        directory.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            continue  # another one ended, and removed the directory
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), (directory / LOCK).stat()):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise StoreLockedError(f"{directory}: another conversion to {path} is at work here") from None
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def begin(directory: Path, path: Path, description: Mapping[str, Any]) -> None:
    """Say in `directory` what it is there for, or see that what is in it is of the same conversion."""
    if not (directory / NEW).exists():
        job.write(directory, description)
        return
    others = job.differences(directory, description)
    if others:
        raise ValueError(
            f"{directory}: here is what was written when another conversion to {path} was cut; restart=True begins anew. "
            f"What differs: {'; '.join(others)}"
        )
    if not job.known(description):
        raise ValueError(
            f"{directory}: here are {written_in(directory)} records that were written when a conversion to {path} was cut. It can't go on: "
            "nothing tells whether this source is the one that they are of, and still has all that it had. restart=True begins anew, with "
            "a new reader where the source was one"
        )


class Written(Closing):
    """The streams in `directory`: created, or as they were left. `len` is how many records all of them have."""

    def __init__(self, directory: Path, streams: Sequence[StreamSpec], encodings: Mapping[str, Encoding]) -> None:
        self._target: DenseDataset | RaggedDataset | MSDataset
        for spec in streams:
            create(directory / spec.name, spec, encodings[spec.name])
        if [spec.name for spec in streams] == [ITSELF]:
            self._target = KINDS[streams[0].kind](directory)
        else:
            MSDataset.repair(directory)
            self._target = MSDataset(directory, [spec.name for spec in streams])

    def __len__(self) -> int:
        return len(self._target)

    def append(self, block: Block) -> None:
        """Append a block to all streams."""
        if isinstance(self._target, MSDataset):
            self._target.append(block)
        else:
            self._target.append(block[ITSELF])

    def read(self, start: int, end: int) -> Block:
        """The records from `start` up to `end` of all streams."""
        if isinstance(self._target, MSDataset):
            return {name: stream[start:end] for name, stream in self._target.streams.items()}
        return {ITSELF: self._target[start:end]}

    def close(self) -> None:
        """Sync and close all streams."""
        self._target.close()


def create(path: Path, spec: StreamSpec, encoding: Encoding) -> None:
    """Create one stream, unless it is there."""
    with opened(path, spec, encoding) as dataset:
        if encoding.dictionary is not None and not dataset.has_dict():
            dataset.install_dict(encoding.dictionary)


def opened(path: Path, spec: StreamSpec, encoding: Encoding) -> DenseDataset | RaggedDataset:
    """One stream, created where it isn't there."""
    metadata = dict(spec.metadata)
    if spec.kind == "ragged":
        return RaggedDataset(path, spec.dtype, encoding.codec, metadata, level=encoding.level)
    return DenseDataset(path, spec.dtype, spec.item_shape, encoding.codec, metadata, level=encoding.level)
