"""A batch of ragged records in one array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx.dataset.dtypes import DType, as_array, contiguous, described, storable
from loaderx.dataset.foreign import array_of
from loaderx.dataset.schema import Shape
from loaderx.dataset.shapes import rows_for
from loaderx.zrecord import CorruptStoreError

Array = npt.NDArray[Any]

MOST_BYTES = 2.0**63
"""NumPy counts the bytes of an array in int64, those of an empty one without its empty dimensions."""


class Packed(NamedTuple):
    """A batch of records in one array, as variable-length kernels and nested tensors take it.

    Record i is `values[offsets[i] : offsets[i + 1]]`, of the shape `shapes[i]`. `RaggedDataset.packed` makes such batches, and
    `RaggedDataset.append` takes them, those that you make too.
    """

    values: Array
    """The items of all records one after another, shape (items,)."""
    offsets: npt.NDArray[np.int64]
    """Where each record begins, in items, and where the last one ends, shape (n + 1,). An append takes any integers."""
    shapes: Sequence[Shape] | npt.NDArray[np.integer[Any]] | None = None
    """The shape of each record, a list; None when all are one-dimensional. An append also takes integers, shape (n, rank)."""


def offsets_of(lengths: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Where records of these lengths, shape (n,), begin one after another, and where the last one ends, shape (n + 1,)."""
    offsets = np.zeros(np.size(lengths) + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=offsets[1:])
    return offsets


def refuse_packed(values: object, what: str, expected: str) -> None:
    """TypeError for a packed batch where something else is expected: as a tuple, its arrays would be taken for records."""
    if isinstance(values, Packed):
        raise TypeError(f"{what}: expected {expected}, found a Packed")


class Flat(NamedTuple):
    """A batch that was checked."""

    values: Array
    """C-contiguous, shape (items,)."""
    places: npt.NDArray[np.int64]
    """From 0 to the number of values, ascending, shape (n + 1,)."""
    rows: npt.NDArray[np.uint32] | None
    """Of the `.shape` file; None when all records are one-dimensional."""

    @property
    def starts(self) -> npt.NDArray[np.uint64]:
        """The byte where each record begins, shape (n,)."""
        return (self.places[:-1] * self.values.dtype.itemsize).astype(np.uint64)

    @property
    def items(self) -> npt.NDArray[np.int64]:
        """The items of each record, shape (n,)."""
        return np.diff(self.places)


def flat(packed: Packed, dtype: DType | None, what: str) -> Flat:
    """The batch, if its parts fit each other, and its values are of `dtype` where one is given.

    Raises:
        TypeError: what is no array, no integers, no shapes.
        ValueError: another dtype, or offsets or shapes that don't fit; the first record of which that is so is named.
    """
    name = f"{what}: values"
    values = array_of(packed.values, name) if dtype is None else as_array(packed.values, dtype, name)
    storable(values.dtype)
    if values.ndim != 1:
        raise ValueError(f"{name}: expected shape (items,), found {values.shape}")
    places = checked_places(packed.offsets, len(values), what)
    rows = rows_for(packed.shapes, places, what)
    if rows is not None:
        check_extent(rows, places, values.dtype, what)
    return Flat(contiguous(values), places, rows)


def is_empty(packed: Packed, what: str) -> bool:
    """Whether this is a batch of no records, as `packed` of an empty index makes it."""
    offsets = array_of(packed.offsets, f"{what}: offsets")
    return offsets.shape == (1,) and array_of(packed.values, f"{what}: values").shape == (0,)


def checked_places(offsets: Any, items: int, what: str) -> npt.NDArray[np.int64]:
    """The offsets of at least one record as int64; TypeError or ValueError where they don't cut so many items.

    A copy: what is checked is what is stored, whatever the caller does to the offsets meanwhile.
    """
    found = np.array(array_of(offsets, f"{what}: offsets"), order="C")
    if found.size and found.dtype.kind not in "iu":
        raise TypeError(f"{what}: offsets: expected integers, found dtype {described(found.dtype)}")
    if found.ndim != 1 or found.size == 0:
        raise ValueError(f"{what}: offsets: expected shape (n + 1,) for n records, found {found.shape}")
    if found.size == 1:
        raise ValueError(f"{what}: expected at least one record, found none")
    if found[0] != 0:
        raise ValueError(f"{what}: record 0: expected a begin at item 0, found {found[0]}")
    falls = np.flatnonzero(found[1:] < found[:-1])
    if falls.size:
        at = int(falls[0])
        raise ValueError(f"{what}: record {at}: expected an end at item {found[at]} or behind, found {found[at + 1]}")
    if found[-1] != items:
        raise ValueError(
            f"{what}: record {len(found) - 2}: expected an end at item {items}, the last, found {found[-1]}"
        )
    return found.astype(np.int64, copy=False)


def check_extent(rows: npt.NDArray[np.uint32], places: npt.NDArray[np.int64], dtype: DType, what: str) -> None:
    """ValueError for an empty record of a shape that no array can have: its other dimensions alone are more than memory has addresses."""
    empty = np.flatnonzero(places[1:] == places[:-1])
    stated = np.where(np.arange(1, rows.shape[1]) < rows[empty, :1], rows[empty, 1:], 1)
    sizes = np.maximum(stated, 1).astype(np.float64).prod(axis=1) * dtype.itemsize
    if (beyond := sizes >= MOST_BYTES).any():
        at = int(np.argmax(beyond))
        shape = tuple(rows[empty[at], 1 : rows[empty[at], 0]].tolist())
        raise ValueError(f"{what}: record {empty[at]}: no array of dtype {described(dtype)} can have the shape {shape}")


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
    places, rows = fitting(starts, rows, dtype, where)
    return Packed(records.view(dtype), places, None if rows is None else _core.shapes(rows, places))


def listed(
    records: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    rows: npt.NDArray[np.uint32] | None,
    dtype: DType,
    where: Where,
) -> list[Array]:
    """As `assembled`, the records as a list of views."""
    places, rows = fitting(starts, rows, dtype, where)
    return _core.split(records.view(dtype), places, rows)


def fitting(
    starts: npt.NDArray[np.int64], rows: npt.NDArray[np.uint32] | None, dtype: DType, where: Where
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32] | None]:
    """Where records begin in items, and their shape rows; None where these say nothing. CorruptStoreError where they don't fit."""
    places = in_items(starts, dtype, where)
    if rows is None or not rows[:, 0].any():
        return places, None
    fits = _core.fits(rows, places)
    if not fits.all():
        raise misfit(places, int(np.argmin(fits)), where)
    return places, rows


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


def misfit(places: npt.NDArray[np.int64], at: int, where: Where) -> CorruptStoreError:
    """The error of a record that can't have the shape that is stated."""
    return CorruptStoreError(f"{where(at)}: its shape does not fit its {places[at + 1] - places[at]} items")
