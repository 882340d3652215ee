"""Arrays for batches: large ones on memory that is used again, because fresh memory costs more than filling it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx import _core

REUSED_FROM = 1 << 20
"""Bytes from which memory is used again: what is smaller, the allocator keeps at hand by itself."""


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A C-contiguous, writable array with unspecified content; its memory is its own for as long as it, or a view of it, lives."""
    size = math.prod(shape) * dtype.itemsize
    if size < REUSED_FROM:
        return np.empty(shape, dtype)
    return _core.batch_memory(size).view(dtype).reshape(shape)
