"""Checks of a loader's arguments."""

from __future__ import annotations

import math
import multiprocessing
import numbers
import threading
from typing import Any, TypeVar

import numpy as np

Name = TypeVar("Name", bound=str)


def choice(found: Name, what: str, expected: tuple[str, ...]) -> Name:
    """One of some names. TypeError for what is no name, ValueError for another."""
    if not isinstance(found, str):
        raise TypeError(f"{what}: expected one of {', '.join(map(repr, expected))}, found {found!r}")
    if found not in expected:
        raise ValueError(f"{what}: expected one of {', '.join(map(repr, expected))}, found {found!r}")
    return found


def start_method(method: str | None) -> str | None:
    """How worker processes begin, or None."""
    if method is None:
        return None
    # Not "fork": a child would take over memory, descriptors and locks of threads that it doesn't have.
    methods = tuple(name for name in ("forkserver", "spawn") if name in multiprocessing.get_all_start_methods())
    return choice(method, "start_method", methods)


def flag(value: object, what: str) -> bool:
    """True or False. TypeError for the rest."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{what}: expected True or False, found {value!r}")
    return bool(value)


def real(value: Any, what: str, expected: str = "a number") -> float:
    """A number as a float, infinity where it is too large for one. TypeError for the rest, a bool and text too."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise TypeError(f"{what}: expected {expected}, found {value!r}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def timeout(seconds: Any) -> float | None:
    """Seconds, or None. TypeError and ValueError for the rest."""
    if seconds is None:
        return None
    number = real(seconds, "timeout", "seconds or None")
    if not 0 < number <= threading.TIMEOUT_MAX:
        raise ValueError(
            f"timeout: expected more than 0 and at most {threading.TIMEOUT_MAX:.0f} seconds, found {seconds}"
        )
    return number
