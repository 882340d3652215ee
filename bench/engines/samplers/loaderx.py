"""A loaderx's sampler: this project's or the published 1.5.7. Each batch is a fresh array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
from loaderx.sampler import Sampler

PACKAGE = "loaderx"
MODES = ("sequential", "iid", "cyclic")


def make(mode: str, length: int, batch: int, seed: int) -> Callable[[], npt.NDArray[Any]]:
    return Sampler(length, batch, int(getattr(Sampler.Mode, mode.upper())), seed).next
