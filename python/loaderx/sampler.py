"""The index sampler under its public name: index batches as a pure function of (seed, step)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx._core import ORDER_VERSION
from loaderx.arguments import integer

__all__ = ["ORDER_VERSION", "Sampler"]


class Sampler:
    """An endless stream of index batches; no memory grows with `length`, and `seek` costs the same for every step.

    The order is a contract: for one `ORDER_VERSION` it never changes between releases.

    Args:
        length: number of records, at least 1.
        batch_size: indices a step, at least 1.
        mode: `Sampler.Mode` or its number.
        seed: 0 to 2^64 - 1.

    Raises:
        TypeError: an argument is no integer.
        ValueError: an argument out of bounds; the message has the numbers.
    """

    class Mode(IntEnum):
        """The order in which records are drawn."""

        SEQUENTIAL = 0
        """In order, the space being a circle: a batch may run over its end."""
        IID = 1
        """Each index uniformly at random, with replacement."""
        CYCLIC = 2
        """Without replacement: each cycle is a fresh permutation, and its remainder that fills no batch is dropped."""

    def __init__(self, length: int, batch_size: int, mode: int, seed: int = 42) -> None:
        length = integer(length, "length", minimum=1)
        batch_size = integer(batch_size, "batch_size", minimum=1)
        self._core = _core.Sampler(length, batch_size, checked_mode(mode), integer(seed, "seed"))

    @property
    def length(self) -> int:
        """Number of records."""
        return self._core.length

    @property
    def batch_size(self) -> int:
        """Indices a step."""
        return self._core.batch_size

    @property
    def mode(self) -> Sampler.Mode:
        """The order in which records are drawn."""
        return self.Mode(self._core.mode)

    @property
    def seed(self) -> int:
        """The seed."""
        return self._core.seed

    @property
    def step(self) -> int:
        """The step that `next()` gives next."""
        return self._core.step

    def next(self) -> npt.NDArray[np.uint64]:
        """The indices of the current step, shape (batch_size,), uint64; moves on by one step."""
        return self._core.next()

    def batch_at(self, step: int) -> npt.NDArray[np.uint64]:
        """The indices of any step, wherever the sampler stands. Safe to call from many threads."""
        return self._core.batch_at(integer(step, "step"))

    def seek(self, step: int) -> None:
        """Stand at `step`, counted from 0."""
        self._core.seek(integer(step, "step"))

    def next_draw(self, index: int, step: int) -> tuple[int, int] | None:
        """(step, place in the batch) at which `index` is first drawn at or after `step`.

        None for `Mode.IID`, where it is not known without drawing.
        """
        return self._core.next_draw(integer(index, "index"), integer(step, "step"))

    def __iter__(self) -> Iterator[npt.NDArray[np.uint64]]:
        return self

    def __next__(self) -> npt.NDArray[np.uint64]:
        return self._core.next()

    def __repr__(self) -> str:
        return (
            f"Sampler(length={self.length}, batch_size={self.batch_size}, mode={self.mode.name}, "
            f"seed={self.seed}, step={self.step})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return restore, (self.length, self.batch_size, int(self.mode), self.seed, self.step)


def checked_mode(mode: object) -> int:
    """The number of a mode. TypeError for what is no integer, ValueError for another one."""
    number = integer(mode, "mode")
    known = {member.value: member.name for member in Sampler.Mode}
    if number not in known:
        raise ValueError(f"mode: expected one of {known}, found {number}")
    return number


def restore(length: int, batch_size: int, mode: int, seed: int, step: int) -> Sampler:
    """What a pickled Sampler becomes."""
    sampler = Sampler(length, batch_size, mode, seed)
    sampler.seek(step)
    return sampler
