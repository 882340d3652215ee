"""Blocks of records: how long they are, and whether two hold the same."""

from __future__ import annotations

import itertools

import numpy as np

from loaderx.converters.source import Array, Block, Values
from loaderx.dataset.dtypes import contiguous
from loaderx.dataset.packed import Packed
from loaderx.zrecord import ZrecordError


def length_of(values: Values) -> int:
    """The number of records."""
    return len(values.offsets) - 1 if isinstance(values, Packed) else len(values)


def checked_length(block: Block) -> int:
    """The number of records, which is that of every stream."""
    counts = {name: length_of(values) for name, values in block.items()}
    if len(set(counts.values())) != 1:
        raise ZrecordError(f"the streams of the source are of unequal length: it gave {counts} records at once")
    return next(iter(counts.values()))


def first_difference(one: Values, other: Values) -> int | None:
    """The first record that isn't the same, to the bit. None where all are."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and same(one, other):
        return None
    pairs = zip(records(one), records(other), strict=True)
    return next((at for at, (a, b) in enumerate(pairs) if not same(a, b)), None)


def same(one: Array, other: Array) -> bool:
    """Whether shape, dtype and bytes are the same."""
    return (
        one.shape == other.shape
        and one.dtype == other.dtype
        and contiguous(one).tobytes() == contiguous(other).tobytes()
    )


def records(values: Values) -> list[Array]:
    """The records one by one. Views: a scalar of NumPy would lose its byte order, and what lies between fields."""
    if isinstance(values, Packed):
        ends = itertools.pairwise(values.offsets.tolist())
        parts = [values.values[start:end] for start, end in ends]
        shapes = values.shapes
        return parts if shapes is None else [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
    if isinstance(values, list):
        return values
    return [values[at : at + 1].reshape(values.shape[1:]) for at in range(len(values))]
