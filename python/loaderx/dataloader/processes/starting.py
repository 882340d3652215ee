"""How worker processes start."""

from __future__ import annotations

import multiprocessing
import os

METHODS = ("forkserver", "spawn")
"""A plain fork would take over memory, descriptors and locks of threads that the child doesn't have."""

forked = False


def note_fork() -> None:
    """Remember it."""
    global forked
    forked = True


os.register_at_fork(after_in_child=note_fork)


def method(chosen: str | None) -> str:
    """The method to start with; in a forked child not the server, which is its parent's."""
    if chosen is not None:
        return chosen
    return "spawn" if forked or "forkserver" not in multiprocessing.get_all_start_methods() else "forkserver"


def checked_start_method(chosen: str | None) -> str | None:
    """A method that there is, or None. ValueError for the rest."""
    known = [name for name in METHODS if name in multiprocessing.get_all_start_methods()]
    if chosen is not None and chosen not in known:
        raise ValueError(f"start_method: expected {', '.join(map(repr, known))} or None, found {chosen!r}")
    return chosen
