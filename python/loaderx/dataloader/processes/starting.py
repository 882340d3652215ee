"""How worker processes start."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.process
import os
import signal
from collections.abc import Iterator
from typing import Any

from loaderx.dataloader.pipeline import stop_all

forked = False


def note_fork() -> None:
    """Remember it; the workers are the parent's."""
    global forked
    forked = True
    children.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=note_fork)


def method(chosen: str | None) -> str:
    """The method to start with; in a forked child not the server, which is its parent's."""
    if chosen is not None and not forked:
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


children: set[Any] = set()
"""Worker processes that this process has started and not yet seen end."""


def adopt(process: Any) -> None:
    """Take a process that was started just now from multiprocessing, which would end it with whichever child of a fork ends first, and
    at exit wait for it however long it is stopped. Reaps those that have ended.
    """
    multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]
    children.difference_update([child for child in children if child.exitcode is not None])
    children.add(process)


@atexit.register
def end_children() -> None:
    """At exit: those that were not waited for have until here."""
    stop_all()
    if not forked:
        for child in children:
            child.kill()
