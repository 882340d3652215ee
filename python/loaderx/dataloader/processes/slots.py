"""The worker's slots: pieces of shared memory that hold a result each, and are used again when the consumer has let go of it."""

from __future__ import annotations

import mmap
import os
from types import TracebackType

from loaderx.dataloader.processes import memory
from loaderx.dataloader.processes.channel import BUSY, FREE

SMALLEST = 1 << 16


class Slot:
    """A slot that the worker may write; `descriptor` is what the consumer needs if it doesn't know the memory yet."""

    def __init__(self, number: int, memory: mmap.mmap, descriptor: int | None) -> None:
        self.number = number
        self.memory = memory
        self.descriptor = descriptor

    def __enter__(self) -> Slot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)


class Slots:
    """All slots of a worker. `states` is their part of the control page."""

    def __init__(self, states: memoryview) -> None:
        self._states = states
        self._maps: list[mmap.mmap] = []

    def take(self, size: int) -> Slot:
        """A slot of at least `size` bytes, from now on busy."""
        number = len(self._maps)
        for candidate, known in enumerate(self._maps):
            if self._states[candidate] == BUSY:
                continue
            if self._states[candidate] == FREE and len(known) >= size:
                self._states[candidate] = BUSY
                return Slot(candidate, known, None)
            number = candidate  # to be replaced
        # What isn't written takes no memory, so room to grow is free.
        capacity = max(SMALLEST, 1 << (size - 1).bit_length())
        descriptor = memory.create(capacity)
        try:
            fresh = memory.mapped(descriptor, capacity)
        except BaseException:
            os.close(descriptor)
            raise
        if number == len(self._maps):
            self._maps.append(fresh)
        else:
            self._maps[number] = fresh
        self._states[number] = BUSY
        return Slot(number, fresh, descriptor)
