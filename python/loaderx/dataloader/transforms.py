"""The user's function on a batch, and the random numbers that it may ask for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

STREAM = int.from_bytes(b"loaderx1", "little")
"""The second word of the key: other users of the same seed draw other numbers."""


def identity(batch: dict[str, Any]) -> dict[str, Any]:
    """The transform that changes nothing."""
    return batch


class Transform:
    """A function batch -> batch; one with a parameter `rng` gets a generator of its own at every step."""

    def __init__(self, function: Callable[..., Any], seed: int, first_place: Callable[[int], int]) -> None:
        if not callable(function):
            raise TypeError(f"transform: expected a callable, found {function!r}")
        self.function = function
        self.takes_rng = takes_rng(function)
        self._seed = seed
        self._first_place = first_place

    @property
    def is_identity(self) -> bool:
        """Whether there is nothing to do."""
        return self.function is identity

    def __call__(self, batch: dict[str, Any], step: int) -> Any:
        """What becomes of the batch of a step."""
        if self.takes_rng:
            return self.function(batch, rng=generator(self._seed, step, self._first_place(step)))
        return self.function(batch)


def takes_rng(function: Callable[..., Any]) -> bool:
    """Whether the function has a parameter `rng` that can be given by its name."""
    try:
        parameter = inspect.signature(function).parameters.get("rng")
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    return parameter is not None and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


def generator(seed: int, step: int, place: int) -> np.random.Generator:
    """Random numbers that are a function of (seed, step, first place of the rank's part of the batch).

    Philox (J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) turns a key and a counter of 256 bits into
    numbers. Step and place are its upper half, so no two of them ever meet.
    """
    key = np.array([seed, STREAM], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=np.array([0, 0, place, step], np.uint64)))
