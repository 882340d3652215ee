"""How far workers may run ahead: so many batches, and no more than so many bytes of them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

from loaderx.dataloader.pipeline import Options


class Window:
    """The number of steps that may be begun or ready at a time; one always may.

    How large a batch is it learns from those it saw; `expected` is the word of whoever knows before. Until one was seen and where nobody
    knows, a bound that was asked for lets no second one be begun. Without one each worker may have a step, so that none waits.
    """

    def __init__(self, options: Options, memory: int, expected: int | None = None) -> None:
        self.most = options.workers + options.ahead
        self._memory = memory
        self._seeing = threading.Lock()
        self._largest = expected
        self._at_first = 1 if options.is_bound else options.workers

    def saw(self, batch: Any) -> None:
        """Take account of a batch that was made."""
        size = 0
        with contextlib.suppress(Exception):  # what users return may have its own idea of a size, or hold itself
            size = bytes_of(batch)
        with self._seeing:  # makers are several threads, and the smaller of two batches must not be what stays
            self._largest = max(self._largest or 0, size)

    @property
    def size(self) -> int:
        """Steps at a time."""
        if self._largest is None:
            return self._at_first
        return max(1, min(self.most, self._memory // max(self._largest, 1)))


def bytes_of(batch: Any) -> int:
    """The bytes of the arrays and tensors in a batch, however it nests them."""
    if isinstance(batch, Mapping):
        return sum(map(bytes_of, batch.values()))
    if isinstance(batch, (list, tuple)):
        return sum(map(bytes_of, batch))
    size = getattr(batch, "nbytes", 0)
    return size if isinstance(size, int) else 0
