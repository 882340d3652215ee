"""A stream that says which records were asked for, and what loaders over it draw."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from loaderx.dataloader import DataLoader


class Numbers:
    """Record i is i (plus `first`)."""

    def __init__(self, length: int, first: int = 0) -> None:
        self.length, self.first = length, first

    def __len__(self) -> int:
        return self.length

    def __getitems__(self, indices: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        return indices.astype(np.int64) + self.first


def drawn(loader: DataLoader, count: int) -> list[list[int]]:
    """The records of the next `count` batches."""
    return [batch["n"].tolist() for batch in itertools.islice(loader, count)]


def draws(length: int, count: int, **options: Any) -> list[list[int]]:
    """The records of the first `count` batches of a new loader."""
    with DataLoader({"n": Numbers(length)}, 1, prefetch_size=1, **options) as loader:
        return drawn(loader, count)


def flat(batches: Iterable[list[int]]) -> list[int]:
    """All records of some batches."""
    return list(itertools.chain.from_iterable(batches))
