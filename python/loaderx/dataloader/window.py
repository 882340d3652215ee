"""How far workers may run ahead: so many batches, and no more than so many bytes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loaderx.dataloader.pipeline import Options


class Window:
    """The number of steps that may be begun or ready at a time; one always may.

    How large a batch is it learns from those it saw. Until then it takes the word of whoever knows, and where nobody does, each worker
    may have one step.
    """

    def __init__(self, options: Options, memory: int, expected: int = 0) -> None:
        self.most = options.workers + options.ahead
        self._memory = memory
        self._largest = expected
        self._unknown = options.workers if expected == 0 else None

    def saw(self, batch: Any) -> None:
        """Take account of a batch that was made."""
        self._largest = max(self._largest, bytes_of(batch))
        self._unknown = None

    @property
    def size(self) -> int:
        """Steps at a time."""
        if self._unknown is not None:
            return min(self._unknown, self.most)
        return max(1, min(self.most, self._memory // max(self._largest, 1)))


def bytes_of(batch: Any) -> int:
    """The bytes of the arrays and tensors in a batch, however it nests them."""
    if isinstance(batch, Mapping):
        return sum(map(bytes_of, batch.values()))
    if isinstance(batch, (list, tuple)):
        return sum(map(bytes_of, batch))
    size = getattr(batch, "nbytes", 0)
    return size if isinstance(size, int) else 0
