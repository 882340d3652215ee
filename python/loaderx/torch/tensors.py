"""NumPy arrays as tensors on the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

REGISTERED = 2
"""`dtype.isbuiltin` of dtypes that a package (`ml_dtypes`) has added to NumPy."""

SAME_BITS = ("bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
"""dtypes that `ml_dtypes` and torch call by one name, a value having the same bits in both."""


def tensor(array: npt.NDArray[Any], what: str = "array") -> torch.Tensor:
    """`array` as a tensor on its memory; bfloat16 and float8 of `ml_dtypes` too.

    What torch can't show is copied: arrays that may not be written to, and those that run backwards.

    Raises:
        TypeError: torch has no such dtype; `what` says which array it is.
    """
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    name = array.dtype.name
    if array.dtype.isbuiltin == REGISTERED and name in SAME_BITS and hasattr(torch, name):
        bits = array.view(np.uint8 if array.itemsize == 1 else np.int16)
        return torch.from_numpy(bits).view(getattr(torch, name))
    try:
        return torch.from_numpy(array)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{what}: dtype {array.dtype} is none of torch's; convert it before the tensors are made, or leave it out: {error}"
        ) from error
