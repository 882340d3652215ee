"""What copying goes by: records in blocks of bounded size, wherever they come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from loaderx.dataset.packed import offsets_of

BLOCK_BYTES = 16 << 20
BLOCK_RECORDS = 1 << 16
FIRST_BYTES, FEWEST_BYTES = 1 << 20, 1 << 16
SHORT, LONG = 0.1, 0.4
"""Seconds between which a write should take."""


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

    def parts(self, pace: Pace) -> Iterator[Block]:
        """The same records in blocks of the size that `pace` has at the time, or of one record that is larger."""
        start = 0
        while start < len(self):
            limit = self.offsets[start] + pace.size
            stop = max(start + 1, int(np.searchsorted(self.offsets, limit, side="right")) - 1)
            values = self.values[self.offsets[start] : self.offsets[stop]]
            rows = None if self.rows is None else self.rows[start:stop]
            yield Block(self.first + start, values, self.offsets[start : stop + 1] - self.offsets[start], rows)
            start = stop


class Pace:
    """How many bytes are written at once: so many that an interrupt waits a moment only, whatever the codec takes."""

    def __init__(self) -> None:
        self.size = FIRST_BYTES

    def took(self, seconds: float) -> None:
        """That is how long as many bytes took."""
        if seconds > LONG:
            self.size = max(FEWEST_BYTES, self.size // 2)
        elif seconds < SHORT:
            self.size = min(BLOCK_BYTES, self.size * 2)


class Source(Protocol):
    """Where records come from. Each walk over `blocks` reads them anew."""

    def __len__(self) -> int: ...
    def blocks(self) -> Iterator[Block]:
        """All records in order."""


def cut(lengths: npt.NDArray[Any], most: int = BLOCK_BYTES) -> Iterator[tuple[int, int]]:
    """Neighbouring records, of these lengths, as ranges of at most `most` bytes, or of one record that is larger."""
    places = offsets_of(lengths)
    start = 0
    while start < len(lengths):
        stop = max(start + 1, int(np.searchsorted(places, places[start] + most, side="right")) - 1)
        yield start, stop
        start = stop
