"""A loop of so many steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Take(Iterator[Any]):
    """The next batches of a loader. Its length is how many are left, so progress bars show a total."""

    def __init__(self, batches: Iterator[Any], count: int) -> None:
        self._batches = batches
        self._left = count

    def __len__(self) -> int:
        return self._left

    def __bool__(self) -> bool:
        return True  # an iterator, also at its end

    def __next__(self) -> Any:
        if self._left == 0:
            raise StopIteration
        batch = next(self._batches)
        self._left -= 1
        return batch
