"""How worker processes start."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Iterator

forked = False


def note_fork() -> None:
    """Remember it."""
    global forked
    forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=note_fork)


def method(chosen: str | None) -> str:
    """The method to start with; in a forked child not the server, which is its parent's."""
    if chosen is not None:
        return chosen
    return "spawn" if forked or "forkserver" not in multiprocessing.get_all_start_methods() else "forkserver"


@contextlib.contextmanager
def starting(method: str) -> Iterator[None]:
    """What is spawned within doesn't get Ctrl-C, until it says so (`settle`): it would tell of it, too.

    A server would give this to all its children, those of others as well, so its workers may be hit until they begin.
    """
    if method != "spawn":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def settle() -> None:
    """For workers: Ctrl-C reaches all processes of a terminal, and the consumer alone decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
