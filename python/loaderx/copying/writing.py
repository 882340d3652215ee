"""Records from a source into a new store, and the comparison of the two."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from loaderx._core import Store
from loaderx.copying.ahead import ahead
from loaderx.copying.block import Block, Pace, Source
from loaderx.progress import Progress
from loaderx.zrecord import CorruptStoreError, Zrecord

Told: TypeAlias = Callable[[int], object]
"""Is told how many records are done."""


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

    `progress` is told of each record twice, when it was written and when compared; the rest is as for `write`.
    """
    total = 2 * len(source)
    told = progress or (lambda done, total: None)
    write(
        source, path, codec, schema, lambda done: told(done, total), level=level, dictionary=dictionary, uniform=uniform
    )
    compare(source, path, lambda done: told(len(source) + done, total))


def write(
    source: Source,
    path: Path,
    codec: str,
    schema: bytes | None,
    told: Told,
    *,
    level: int | None = None,
    dictionary: bytes | None = None,
    uniform: bool = False,
) -> None:
    """Write a new store at `path` that holds the records of `source`. `uniform`: the records are rows, all of one length."""
    told(0)
    Store.create(path, codec, level=level, schema=schema).close()
    with Zrecord(path) as store:
        if dictionary is not None:
            store.install_dict(dictionary)
        pace = Pace()
        for block in ahead(source.blocks()):
            for part in block.parts(pace):
                begun = monotonic()
                append(store, part, uniform)
                pace.took(monotonic() - begun)
                told(part.first + len(part))


def append(store: Zrecord, block: Block, uniform: bool) -> None:
    """Append a block's records."""
    if uniform:
        store.append_rows(block.values.reshape(len(block), -1))
    else:
        store.append(block.values, block.offsets[:-1], block.rows)


def compare(source: Source, path: Path, told: Told) -> None:
    """Read all records of both again. CorruptStoreError for the first that isn't the same."""
    # Maps would count what was read as memory in use, and let a file that is cut end the process.
    with Zrecord(path, read_only=True, io="pread") as store:
        if len(store) != len(source):
            raise CorruptStoreError(f"{path}: expected {len(source)} records, found {len(store)}")
        for block in ahead(source.blocks()):
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
