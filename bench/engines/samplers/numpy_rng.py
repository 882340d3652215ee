"""NumPy's generator, which draws with replacement only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

PACKAGE = "numpy"
MODES = ("iid",)


def make(mode: str, length: int, batch: int, seed: int) -> Callable[[], npt.NDArray[Any]]:
    integers = np.random.default_rng(seed).integers
    return lambda: integers(0, length, batch)
