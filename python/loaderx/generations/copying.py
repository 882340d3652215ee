"""Records from a source into a new store, and the comparison of the two."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx._core import Store
from loaderx.dataset.streams import found
from loaderx.generations.block import Block, Source
from loaderx.zrecord import CorruptStoreError, Zrecord

Progress: TypeAlias = Callable[[int, int], object]


@contextmanager
def unfinished(path: Path, source: Path) -> Iterator[Path]:
    """A directory beside `path`, to work in. If all went well, what is in it under `new` becomes `path`; it goes in any case.

    FileExistsError if there is something at `path`, ValueError if that is within `source`, which stays as it is.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "there is something already; choose another path or remove it", str(path))
    if path.resolve().is_relative_to(source.resolve()):
        raise ValueError(f"{path}: expected a place outside of {source}, which stays as it is")
    parent = path.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    # Beside it, so that it is on the same disk.
    directory = Path(tempfile.mkdtemp(prefix=f".{path.name}.unfinished-", dir=parent))
    try:
        yield directory
        sync_directory(directory / "new")
        (directory / "new").rename(path)
        sync_directory(parent)
    finally:
        shutil.rmtree(directory)


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


def copy(
    source: Source,
    path: Path,
    codec: str,
    schema: bytes | None,
    *,
    level: int | None = None,
    dictionary: bytes | None = None,
    uniform: bool = False,
    progress: Progress | None = None,
) -> None:
    """Write a new store at `path` that holds the records of `source`, and compare the two.

    `uniform`: the records are rows, all of one length. `progress` is told of each record twice, when it was written and when compared.
    """
    total = 2 * len(source)
    told = progress or (lambda done, total: None)
    told(0, total)
    Store.create(path, codec, level=level, schema=schema).close()
    with Zrecord(path) as store:
        if dictionary is not None:
            store.install_dict(dictionary)
        for block in source.blocks():
            append(store, block, uniform)
            told(block.first + len(block), total)
    compare(source, path, lambda done: told(len(source) + done, total))


def append(store: Zrecord, block: Block, uniform: bool) -> None:
    """Append a block's records."""
    if block.rows is not None:
        store.append_list(_core.split(block.values, block.offsets), block.rows)
    elif uniform:
        store.append_rows(block.values.reshape(len(block), -1))
    else:
        store.append(block.values, block.offsets[:-1])


def compare(source: Source, path: Path, told: Callable[[int], object]) -> None:
    """Read all records of both again. CorruptStoreError for the first that isn't the same."""
    # Maps would count what was read as memory in use, and let a file that is cut end the process.
    with Zrecord(path, read_only=True, io="pread") as store:
        if len(store) != len(source):
            raise CorruptStoreError(f"{path}: expected {len(source)} records, found {len(store)}")
        for block in source.blocks():
            idxs = np.arange(block.first, block.first + len(block), dtype=np.uint64)
            values, offsets, rows = store.gather_shaped(idxs)
            same = np.array_equal(values, block.values) and np.array_equal(offsets, block.offsets)
            if not same or not same_shapes(rows, block):
                raise CorruptStoreError(
                    f"{path}: records {block.first} to {block.first + len(block) - 1} are not what was to be copied; "
                    "either store was changed meanwhile, or the disk or the memory is not to be trusted"
                )
            told(block.first + len(block))


def same_shapes(rows: npt.NDArray[np.uint32] | None, block: Block) -> bool:
    """Whether the rows that a store has are those of the block."""
    if rows is None or block.rows is None:
        # A store has rows for all records once one of them isn't one-dimensional.
        return not any(each is not None and each.any() for each in (rows, block.rows))
    return np.array_equal(rows, block.rows)
