"""The published loaderx 2.x, whose batches are borrowed: a copy makes them the caller's own, as all others are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
from loaderx.sampler import Sampler

PACKAGE = "loaderx"
MODES = ("sequential", "iid", "cyclic")


def make(mode: str, length: int, batch: int, seed: int) -> Callable[[], npt.NDArray[Any]]:
    sampler = Sampler(length, batch, getattr(Sampler.Mode, mode.upper()), seed)

    def draw() -> npt.NDArray[Any]:
        indices: npt.NDArray[Any] = sampler.next().copy()
        return indices

    return draw
