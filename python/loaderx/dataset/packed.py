"""A batch of ragged records in one array."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loaderx.dataset.dtypes import DType, described
from loaderx.dataset.index import Indices
from loaderx.dataset.schema import Shape
from loaderx.dataset.shapes import shape_of
from loaderx.zrecord import CorruptStoreError

Array = npt.NDArray[Any]


class Packed(NamedTuple):
    """A batch of records in one array, as variable-length kernels and nested tensors take it.

    Record i is `values[offsets[i] : offsets[i + 1]]`, of the shape `shapes[i]`.
    """

    values: Array
    """The items of all records one after another, shape (items,)."""
    offsets: npt.NDArray[np.int64]
    """Where each record begins, in items, and where the last one ends, shape (n + 1,)."""
    shapes: list[Shape] | None
    """The shape of each record; None when all are one-dimensional."""


Where = Callable[[int], str]
"""Which record stands at a place of a batch, for messages."""


def assembled(
    records: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    rows: npt.NDArray[np.uint32] | None,
    dtype: DType,
    where: Where,
) -> Packed:
    """The batch of records whose bytes begin at `starts`, and whose shape rows are `rows`. CorruptStoreError where they don't fit."""
    starts = in_items(starts, dtype, where)
    return Packed(records.view(dtype), starts, shapes_of(rows, starts, where))


def in_items(starts: npt.NDArray[np.int64], dtype: DType, where: Where) -> npt.NDArray[np.int64]:
    """Offsets in bytes as offsets in items."""
    if dtype.itemsize == 1:
        return starts
    items, remainders = np.divmod(starts, dtype.itemsize)
    if remainders.any():
        at = int(np.flatnonzero(remainders)[0]) - 1
        raise CorruptStoreError(
            f"{where(at)}: expected a multiple of the {dtype.itemsize} bytes of {described(dtype)}, "
            f"found {starts[at + 1] - starts[at]} bytes"
        )
    return items


def shapes_of(rows: npt.NDArray[np.uint32] | None, starts: npt.NDArray[np.int64], where: Where) -> list[Shape] | None:
    """The shapes that the shape table says; None when all are one-dimensional."""
    if rows is None or not rows[:, 0].any():
        return None
    items = np.diff(starts).tolist()
    return fitting([shape_of(row, n) for row, n in zip(rows, items, strict=True)], items, where)


def listed_shapes(listed: tuple[Shape, ...], idxs: Indices, starts: npt.NDArray[np.int64], where: Where) -> list[Shape]:
    """The shapes that a schema of loaderx 1.x lists."""
    items = np.diff(starts).tolist()
    stated = [listed[i] for i in idxs.tolist()]
    fits = [shape if math.prod(shape) == n else None for shape, n in zip(stated, items, strict=True)]
    return fitting(fits, items, where)


def fitting(shapes: list[Shape | None], items: list[int], where: Where) -> list[Shape]:
    """The shapes, of which None doesn't fit the record."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        at = shapes.index(None)
        raise CorruptStoreError(f"{where(at)}: its shape does not fit its {items[at]} items")
    return known
