"""The consumer's side of the slots: a result is held as long as one of its arrays is alive, and then the worker may write there again."""

from __future__ import annotations

import errno
import mmap
import os
import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx.dataloader.processes import memory
from loaderx.dataloader.processes.channel import FREE, GONE, Message
from loaderx.dataloader.processes.packing import ALIGNMENT

KEPT = 16
"""Results of one worker that a consumer may keep in place; what it keeps beyond that is copied, so that slots stay few."""

forks = 0
"""How often this process was forked. A child sees the memory of batches that it inherited, so that memory isn't used again."""


def count_fork() -> None:
    """A child is about to share all memory."""
    global forks
    forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=count_fork)


class Leases:
    """The slots of one worker, as the consumer sees them. `states` is their part of the control page."""

    def __init__(self, states: memoryview, kept: int) -> None:
        self._states = states
        self._kept = kept
        self._maps: dict[int, mmap.mmap] = {}
        self._held: list[weakref.finalize[..., Any]] = []

    def learn(self, message: Message, descriptor: int | None) -> None:
        """Map the memory of a slot if the message brings it."""
        if descriptor is not None:
            try:
                self._maps[message.slot] = memory.mapped(descriptor, message.capacity)
            finally:
                os.close(descriptor)
        elif message.capacity:
            self._maps.pop(message.slot, None)  # the kernel had no descriptor left for us

    @property
    def mapped(self) -> int:
        """Bytes of the slots that are known."""
        return sum(len(slot) for slot in list(self._maps.values()))

    def hold(self, message: Message) -> npt.NDArray[np.uint8]:
        """The memory of a result. When the array and all that is made on it are gone, the slot is free."""
        found = self._maps.get(message.slot)
        if found is None:
            self._states[message.slot] = GONE
            raise OSError(errno.EMFILE, "no descriptor was left for the memory of a batch")
        array = np.frombuffer(found, np.uint8)
        self._held = [held for held in self._held if held.alive]
        if len(self._held) >= self._kept:
            copy = aligned(message.tail + message.length)
            copy[:] = array[: len(copy)]
            self._states[message.slot] = FREE
            return copy
        held = weakref.finalize(array, let_go, self._states, message.slot, os.getpid(), forks)
        held.atexit = False
        self._held.append(held)
        return array


def let_go(states: memoryview, slot: int, process: int, forks_before: int) -> None:
    """Nothing in this process needs the slot any longer. Runs at any time in any thread; in a forked child it does nothing."""
    if os.getpid() == process:
        states[slot] = FREE if forks == forks_before else GONE


def aligned(size: int) -> npt.NDArray[np.uint8]:
    """Fresh memory that begins where a slot's would."""
    whole = np.empty(size + ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return whole[start : start + size]
