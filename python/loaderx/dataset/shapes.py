"""The shapes of ragged records as rows of the `.shape` file (`docs/format.md`).

A row is eight uint32: rank plus one, then up to seven dimensions. A row of zeros is a one-dimensional record.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx._core import MAX_RANK
from loaderx.dataset.foreign import array_of, speaks
from loaderx.zrecord import ZrecordError

Shape = tuple[int, ...]
Rows = npt.NDArray[np.uint32]
ROW_WIDTH = 8
MAX_DIM = 2**32 - 1


def rows_of(shapes: Iterable[Shape]) -> Rows | None:
    """The rows of records of these shapes, shape (n, 8); None when every record is one-dimensional."""
    return _core.shape_rows(shapes, "record")


def rows_for(shapes: Any, places: npt.NDArray[np.int64], what: str) -> Rows | None:
    """The rows of the shapes that someone states for records of so many items.

    Args:
        shapes: a list of tuples, integers of shape (n, rank), or None: all one-dimensional.
        places: where the records begin, and where the last one ends, shape (n + 1,).
        what: begins each message.

    Raises:
        TypeError, ValueError: these are no shapes, or not those of the records; the first such record is named.
    """
    if shapes is None:
        return None
    count = len(places) - 1
    if speaks(shapes):
        return rows_of_one_rank(array_of(shapes, f"{what}: shapes"), places, what)
    if isinstance(shapes, (str, bytes)) or not isinstance(shapes, Sequence):
        raise TypeError(f"{what}: shapes: expected a list of tuples or an array, found {type(shapes).__name__}")
    if len(shapes) != count:
        raise ValueError(f"{what}: expected a shape for each of {count} records, found {len(shapes)}")
    return _core.shape_rows(shapes, f"{what}: record", places)


def rows_of_one_rank(sizes: npt.NDArray[Any], places: npt.NDArray[np.int64], what: str) -> Rows | None:
    """As `rows_for`, of an array."""
    count = len(places) - 1
    if sizes.dtype.kind not in "iu":
        raise TypeError(f"{what}: shapes: expected integers, found dtype {sizes.dtype}")
    if sizes.ndim != 2 or len(sizes) != count:
        raise ValueError(f"{what}: shapes: expected shape ({count}, rank), found {sizes.shape}")
    rank = sizes.shape[1]
    if rank == 1:
        fits = sizes[:, 0] == np.diff(places)
    else:
        check_shape(tuple(sizes[0].tolist()), f"{what}: record 0")
        fits = ((sizes >= 0) & (sizes <= MAX_DIM)).all(axis=1)
    rows = np.zeros((count, ROW_WIDTH), np.uint32)
    if rank != 1 and fits.all():
        rows[:, 0] = rank + 1
        rows[:, 1 : rank + 1] = sizes
        fits = _core.fits(rows, places)
    if not fits.all():
        at = int(np.argmin(fits))
        shape = tuple(sizes[at].tolist())
        if min(shape, default=0) < 0:
            raise ValueError(f"{what}: record {at}: expected sizes from 0 up, found shape {shape}")
        found = places[at + 1] - places[at]
        raise ValueError(f"{what}: record {at}: shape {shape} has {math.prod(shape)} items, found {found}")
    return None if rank == 1 else rows


def rows_of_listed(listed: Sequence[Shape], path: Path, purpose: str) -> Rows:
    """The rows of the shapes that loaderx 1.x lists in a schema, one for each, shape (n, 8).

    ZrecordError for a shape that has no row: the store can be read, but not made `purpose`.
    """
    for record, shape in enumerate(listed):
        try:
            check_shape(shape, f"{path}: record {record}")
        except ValueError as error:
            raise ZrecordError(f"this store of loaderx 1.x can be read, but not {purpose}: {error}") from error
    rows = rows_of(listed)
    return np.zeros((len(listed), ROW_WIDTH), np.uint32) if rows is None else rows


def listed_fit(listed: Iterable[Shape], items: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of the shapes that loaderx 1.x lists are those of so many items. A damaged list may state more items than 64 bits count."""
    return np.array([math.prod(shape) == count for shape, count in zip(listed, items.tolist(), strict=True)], bool)


def check_shape(shape: Shape, what: str) -> None:
    """ValueError for a shape that has no row."""
    if len(shape) > MAX_RANK:
        raise ValueError(f"{what}: expected at most {MAX_RANK} dimensions, found shape {shape}")
    if len(shape) != 1 and any(dim > MAX_DIM for dim in shape):
        raise ValueError(f"{what}: expected dimensions of at most {MAX_DIM}, found shape {shape}")
