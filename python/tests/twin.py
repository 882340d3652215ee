"""Records that say who they are, and the naive twin of a store that is appended to, deleted from and compacted.

A record's identity is a number that its content is made from and that can be read off it, so a record in the wrong place, of the
wrong time or put together from two is told at a glance. The twin of a store is the list of its identities.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from loaderx._core import Store
from loaderx.dataset import DenseDataset, RaggedDataset
from support import Array, same, swap_last

Kind = Literal["dense", "ragged"]
Dataset = DenseDataset | RaggedDataset

DENSE_ITEMS = 24
CHUNK_LIMIT = 8 << 10
"""Bytes: an append of a hundred records begins several chunks."""


@lru_cache(maxsize=1 << 15)
def record(kind: Kind, identity: int) -> Array:
    """The record of this identity, int64. Ragged ones are of many shapes, empty and 0-d ones among them."""
    if kind == "dense":
        return identity + np.arange(DENSE_ITEMS) * (identity % 1000)
    if identity % 9 == 0:
        return np.empty((0, identity), np.int64)
    if identity % 9 == 1:
        return np.array(identity)
    shape = (2, 1 + identity % 5) if identity % 9 == 2 else (1 + identity % 60,)
    return (identity + np.arange(math.prod(shape)) * (identity % 1000)).reshape(shape)


def identity_of(content: Array) -> int:
    """Who a record says it is."""
    return int(content.flat[0] if content.size else content.shape[-1])


def batch(kind: Kind, identities: Sequence[int]) -> Any:
    """What `append` takes."""
    if kind == "dense":
        wanted = np.array(identities, np.int64)[:, None]
        return wanted + np.arange(DENSE_ITEMS) * (wanted % 1000)
    return [record(kind, identity) for identity in identities]


def identities_of(kind: Kind, records: Any) -> list[int]:
    """Who the records are. Each must be, to the bit, the record that it says it is."""
    found = [identity_of(content) for content in records]
    for identity, content in zip(found, records, strict=True):
        assert same(content, record(kind, identity)), f"not record {identity}: {content!r}"
    return found


def are(kind: Kind, records: Any, identities: Sequence[int]) -> bool:
    """Whether these are, to the bit, the records of these identities, in this order."""
    if kind == "dense":
        return same(records, batch(kind, identities))
    expected = batch(kind, identities)
    if [content.shape for content in records] != [content.shape for content in expected]:
        return False
    empty = [np.empty(0, np.int64)]
    return same(*(np.concatenate(empty + [content.ravel() for content in part]) for part in (records, expected)))


def create(path: Path, kind: Kind, codec: str, dictionary: bytes | None = None, level: int | None = None) -> None:
    """A new store; `dictionary` is what a "zstd_dict" one gets."""
    with dataset(path, kind, codec=codec, level=level) as ds:
        if codec == "zstd_dict":
            assert dictionary is not None
            ds.install_dict(dictionary)


def dataset(path: Path, kind: Kind, **options: Any) -> Dataset:
    """The dataset at `path`, made if it is missing."""
    if kind == "dense":
        return DenseDataset(path, dtype=np.int64, item_shape=(DENSE_ITEMS,), **options)
    return RaggedDataset(path, dtype=np.int64, **options)


def in_small_chunks(path: Path, kind: Kind, chunk_limit: int = CHUNK_LIMIT) -> Dataset:
    """The dataset with chunks so small that they roll over."""
    ds = dataset(path, kind)
    ds._store._core.close()
    ds._store._core = Store.open(path, chunk_limit=chunk_limit)
    if isinstance(ds, DenseDataset):
        ds._rows = ds._store.rows(ds.dtype, ds.item_shape)
    return ds


def small_store(path: Path, kind: Kind) -> tuple[Path, Kind]:
    """A new store of the records 0 to 19."""
    create(path, kind, "zstd" if kind == "ragged" else "raw")
    with in_small_chunks(path, kind) as ds:
        ds.append(batch(kind, range(20)))
    return path, kind


def writes(ds: Dataset, kind: Kind) -> Iterator[Callable[[], Any]]:
    """Everything that only a writer does."""
    yield lambda: ds.append(batch(kind, [1]))
    yield lambda: ds.delete(3)
    yield ds.compact
    yield ds._store.begin_write


class Operation(NamedTuple):
    """Something to do with a store, and the identities that are its records afterwards."""

    name: Literal["append", "sync", "delete", "compact"]
    argument: list[int]
    """Identities to append, or indices to delete."""
    after: list[int]

    def apply(self, ds: Dataset, kind: Kind) -> None:
        if self.name == "append":
            ds.append(batch(kind, self.argument))
        elif self.name == "delete":
            ds.delete(self.argument)
        elif self.name == "sync":
            ds.sync()
        else:
            ds.compact()


def operations(before: Sequence[int], fresh: int, seed: int, *, alone: bool = True) -> Iterator[Operation]:
    """The endless sequence of operations that a seed stands for; new records are `fresh` and up.

    Where somebody else has the store open (not `alone`), records can't be deleted.
    """
    rng = random.Random(seed)
    now = list(before)
    while True:
        name = rng.choices(("append", "sync", "delete", "compact"), (6, 1, 3, 2))[0]
        argument: list[int] = []
        if name == "append":
            count = rng.randint(1, 12) if rng.random() < 0.8 else rng.randint(100, 300)
            argument = list(range(fresh, fresh + count))
            fresh += count
            now = now + argument
        elif name == "delete" and not now:
            name = "sync"
        elif name == "delete":
            argument = rng.sample(range(len(now)), rng.randint(1, 1 + len(now) // 2))
            now = swap_last(now, argument) if alone else now
        yield Operation(name, argument, now)  # type: ignore[arg-type]


def files_are_exact(path: Path, length: int) -> None:
    """A store that a writer has opened holds no file that is left over, and none that is longer than its content."""
    names = {file.name for file in path.iterdir()}
    header = (path / "meta.zr").read_bytes()
    tail_chunk, tail_offset, stated = struct.unpack("<IIQ", header[6:22])
    assert stated == length
    tables = {"0.loc": 16, "0.sum": 4} | ({"0.shape": 32} if header[23] & 2 else {})
    sizes = {name: (path / name).stat().st_size for name in names}
    assert {name: sizes.pop(name, 0) for name in tables} == {name: width * length for name, width in tables.items()}
    chunks = {name: sizes.pop(name) for name in names if name.endswith(".chunk")}
    assert chunks.get(f"{tail_chunk}.chunk", 0) == tail_offset
    assert all(int(name.split(".")[0]) <= tail_chunk for name in chunks)
    # Tables of a store without records may be there, empty.
    assert not sizes.keys() - {"meta.zr", "sync.zr", "lock.zr", "dict.zr", "schema.msgpack", "0.shape"}, sorted(names)
    assert sizes.get("0.shape", 0) == 0
