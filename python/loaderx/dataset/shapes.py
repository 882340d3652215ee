"""The shapes of ragged records as rows of the `.shape` file (`docs/format.md`).

A row is eight uint32: rank plus one, then up to seven dimensions. A row of zeros is a one-dimensional record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx._core import MAX_RANK

Shape = tuple[int, ...]
ROW_WIDTH = 8
MAX_DIM = 2**32 - 1


def rows_of(shapes: Sequence[Shape]) -> npt.NDArray[np.uint32] | None:
    """The rows of records of these shapes, shape (n, 8); None when every record is one-dimensional."""
    if all(len(shape) == 1 for shape in shapes):
        return None
    rows = np.zeros((len(shapes), ROW_WIDTH), np.uint32)
    for row, shape in zip(rows, shapes, strict=True):
        if len(shape) != 1:
            row[0] = len(shape) + 1
            row[1 : len(shape) + 1] = shape
    return rows


def check_shape(shape: Shape, what: str) -> None:
    """ValueError for a shape that has no row."""
    if len(shape) > MAX_RANK:
        raise ValueError(f"{what}: expected at most {MAX_RANK} dimensions, found shape {shape}")
    if len(shape) != 1 and any(dim > MAX_DIM for dim in shape):
        raise ValueError(f"{what}: expected dimensions of at most {MAX_DIM}, found shape {shape}")


def shape_of(row: npt.NDArray[np.uint32], items: int) -> Shape | None:
    """The shape that a row states for a record of `items` items; None if it can't be that record's."""
    marker = int(row[0])
    if marker == 0:
        return (items,)
    if marker > MAX_RANK + 1:
        return None
    shape = tuple(row[1:marker].tolist())
    return shape if math.prod(shape) == items else None


def split(
    flat: npt.NDArray[Any], starts: npt.NDArray[np.int64], shapes: Sequence[Shape] | None
) -> list[npt.NDArray[Any]]:
    """Cut `flat`, shape (items,), at the n + 1 `starts`, and give each part its shape; None: all one-dimensional."""
    parts = _core.split(flat, starts)
    if shapes is None:
        return parts
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
