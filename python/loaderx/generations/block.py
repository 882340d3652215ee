"""What copying goes by: records in blocks of bounded size, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

BLOCK_BYTES = 16 << 20
BLOCK_RECORDS = 1 << 16


@dataclass(frozen=True)
class Block:
    """Neighbouring records, one after another."""

    first: int
    """The index of the first one."""
    values: npt.NDArray[np.uint8]
    """Their bytes, shape (bytes,)."""
    offsets: npt.NDArray[np.int64]
    """Where each begins, and where the last one ends, shape (n + 1,)."""
    rows: npt.NDArray[np.uint32] | None
    """Their rows of the `.shape` file, shape (n, 8); None when all are one-dimensional, or no shape is known."""

    def __len__(self) -> int:
        return len(self.offsets) - 1


class Source(Protocol):
    """Where records come from. Each walk over `blocks` reads them anew."""

    def __len__(self) -> int: ...
    def blocks(self) -> Iterator[Block]:
        """All records in order."""


def cut(lengths: npt.NDArray[Any], most: int = BLOCK_BYTES) -> Iterator[tuple[int, int]]:
    """Neighbouring records, of these lengths, as ranges of about `most` bytes; never of more than one record and that."""
    ends = np.cumsum(lengths, dtype=np.int64)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield start, stop
        start = stop
