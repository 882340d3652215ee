"""How far workers may run ahead: so many batches, and no more than so many bytes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Window:
    """The number of steps that may be begun or ready at a time; one always may. Learns how large a batch is from those it saw."""

    def __init__(self, batches: int, memory: int) -> None:
        self.most, self._memory = batches, memory
        self._largest = 0

    def saw(self, batch: Any) -> None:
        """Take account of a batch that was made."""
        self._largest = max(self._largest, bytes_of(batch))

    @property
    def size(self) -> int:
        """Steps at a time."""
        if self._largest == 0:
            return self.most
        return max(1, min(self.most, self._memory // self._largest))


def bytes_of(batch: Any) -> int:
    """The bytes of the arrays and tensors in a batch, however it nests them."""
    if isinstance(batch, Mapping):
        return sum(map(bytes_of, batch.values()))
    if isinstance(batch, (list, tuple)):
        return sum(map(bytes_of, batch))
    size = getattr(batch, "nbytes", 0)
    return size if isinstance(size, int) else 0
