"""Files that are opened when they are read, so that a list of thousands needs no more of them open than are read at once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

Handle = TypeVar("Handle")
IDLE = 4
"""How many files stay open that nobody reads."""


class FewOpen(Generic[Handle]):
    """What files are read through, opened by `open_one` and closed by `close_one`. Several threads may read one file at a time."""

    def __init__(self, open_one: Callable[[Path], Handle], close_one: Callable[[Handle], object]) -> None:
        self._open, self._close = open_one, close_one
        self._turn = threading.Lock()
        self._handles: OrderedDict[Path, Handle] = OrderedDict()
        self._readers: dict[Path, int] = {}

    @contextmanager
    def reading(self, file: Path) -> Iterator[Handle]:
        """What a file is read through. It is not closed before the end of the `with`."""
        with self._turn:
            if file not in self._handles:
                self._handles[file] = self._open(file)
            self._handles.move_to_end(file)
            self._readers[file] = self._readers.get(file, 0) + 1
            handle = self._handles[file]
        try:
            yield handle
        finally:
            with self._turn:
                self._readers[file] -= 1
                if not self._readers[file]:
                    del self._readers[file]
                self._close_idle(IDLE)

    def _close_idle(self, most: int) -> None:
        idle = [file for file in self._handles if file not in self._readers]
        for file in idle[: max(0, len(idle) - most)]:
            self._close(self._handles.pop(file))

    def close(self) -> None:
        """Close all. Nobody reads any more."""
        with self._turn:
            self._close_idle(0)
