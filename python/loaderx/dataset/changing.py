"""Whose turn it is to change a dataset."""

from __future__ import annotations

import os
import threading


class Changing:
    """The lock of a dataset's changes. A forked child has one of its own: a thread that had it at the fork would have it for ever."""

    def __init__(self) -> None:
        self._locks: dict[int, threading.Lock] = {}

    def lock(self) -> threading.Lock:
        """The lock of this process."""
        # One step, so that threads of a child that come here at once get the same one.
        return self._locks.setdefault(os.getpid(), threading.Lock())
