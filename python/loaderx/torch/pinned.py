"""Pinned memory that is used again, and never more of it than agreed."""

from __future__ import annotations

import threading
from collections.abc import Callable

import torch

SMALLEST = 1 << 16


class Pool:
    """Buffers of page-locked memory, each of one owner at a time: from `take` to `give` or `lose`.

    A buffer must be given back only when nothing reads it any more: the next owner writes to it at once. Threads may share a pool.

    Args:
        allocate: bytes -> a new buffer, a uint8 tensor of that size.
        limit: bytes of all buffers together, at most.
    """

    def __init__(self, allocate: Callable[[int], torch.Tensor], limit: int) -> None:
        self._allocate = allocate
        self._limit = limit
        self._lock = threading.Lock()
        self._free: dict[int, list[torch.Tensor]] = {}
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes of all buffers, those that are taken too."""
        return self._held

    def take(self, size: int) -> torch.Tensor | None:
        """A buffer of at least `size` bytes; None where that would be more memory than agreed."""
        size = size_class(size)
        with self._lock:
            if self._free.get(size):
                return self._free[size].pop()
            self._make_room(size)
            if self._held + size > self._limit:
                return None
            self._held += size
        # Locking pages takes milliseconds, and other threads need not wait for that.
        try:
            return self._allocate(size)
        except BaseException:
            with self._lock:
                self._held -= size
            raise

    def _make_room(self, size: int) -> None:
        """Drop free buffers of other sizes, as far as that is needed: batches may have changed their size."""
        for other, buffers in self._free.items():
            while buffers and self._held + size > self._limit:
                buffers.pop()
                self._held -= other

    def give(self, buffer: torch.Tensor) -> None:
        """Take a buffer back."""
        with self._lock:
            self._free.setdefault(buffer.numel(), []).append(buffer)

    def lose(self, buffer: torch.Tensor) -> None:
        """Forget a buffer that may still be read: it is freed when its memory's owner thinks it right."""
        with self._lock:
            self._held -= buffer.numel()


def size_class(size: int) -> int:
    """The size of the buffer for `size` bytes: powers of two, so that batches of similar sizes share buffers."""
    return max(SMALLEST, 1 << max(0, size - 1).bit_length())
