"""Where records in the order of their length are cut into buckets. A function of the lengths alone."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loaderx.dataloader import arguments

MOST_BOUNDS = 4096
LEAST_GROWTH = 1.01
DIGIT = 16
"""Bits that are sorted by at a time: NumPy sorts numbers of this size by counting."""


class Cut(NamedTuple):
    """One bucket: so many of the next longer records."""

    bound: int
    """The number of the bound that it has."""
    records: int
    batch_size: int


def by_length(lengths: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Places in `lengths`, shortest first, those of one length in their order. A few passes over the lengths, whatever they are."""
    order = np.argsort((lengths & np.uint64(0xFFFF)).astype(np.uint16), kind="stable")
    for shift in range(DIGIT, int(lengths.max(initial=0)).bit_length(), DIGIT):
        digits = (lengths >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def bounds_of(ordered: npt.NDArray[np.uint64], growth: Any) -> list[int]:
    """Bounds that rise by the factor `growth` at least, and are all lengths that there are (1 stands for 0).

    From the longest record down: the next bound is the longest that is shorter by the factor.
    """
    factor = arguments.real(growth, "growth")
    if not LEAST_GROWTH <= factor < math.inf:
        raise ValueError(f"growth: expected at least {LEAST_GROWTH}, found {growth}")
    bounds = [max(int(ordered[-1]), 1)]
    while (below := min(int(bounds[-1] / factor), bounds[-1] - 1)) > 0:
        count = int(np.searchsorted(ordered, np.uint64(below), "right"))
        if count == 0:
            break
        bounds.append(max(int(ordered[count - 1]), 1))
    return bounds[::-1]


def sizes_of(bounds: list[int], tokens: int | None, batch_size: int | None, multiple_of: int) -> list[int]:
    """The batch size of each bound. All bounds are at most `tokens // multiple_of`."""
    if tokens is None:
        assert batch_size is not None
        return [batch_size] * len(bounds)
    return [tokens // bound // multiple_of * multiple_of for bound in bounds]


def cut(counts: list[int], sizes: list[int], multiple_of: int, *, may_shrink: bool) -> list[Cut]:
    """The buckets, shortest first; `counts` are the records up to each bound, `sizes` fall or stay.

    Each has whole batches, except for the one with the most batches, whose remainder is left over. Records may go to a longer
    bucket for that, never to a shorter one. Where there are too few for it, the two shortest buckets become one. The last one
    may have a smaller batch, if `may_shrink`. ValueError if there are fewer records than a batch has.
    """
    for first in range(len(counts)):
        records = whole_batches([sum(counts[: first + 1]), *counts[first + 1 :]], sizes[first:])
        if records is not None:
            cuts = zip(range(first, len(counts)), records, sizes[first:], strict=True)
            return [Cut(bound, found, size) for bound, found, size in cuts if found]
    total, size = sum(counts), sizes[-1]
    if may_shrink:
        size = min(size, total // multiple_of * multiple_of)
    if not 0 < size <= total:
        raise ValueError(f"lengths: expected records for at least one batch of {size or multiple_of}, found {total}")
    return [Cut(len(counts) - 1, total, size)]


def whole_batches(counts: list[int], sizes: list[int]) -> list[int] | None:
    """Records of each bucket, so that all but one have whole batches and each that has records has a batch. None if that can't be."""
    records = list(counts)
    most = max(range(len(counts)), key=lambda number: counts[number] // sizes[number])
    for number in range(most):
        rest = records[number] % sizes[number]
        records[number] -= rest
        records[number + 1] += rest
    for number in range(len(counts) - 1, most, -1):
        lower = number - 1
        while lack := -records[number] % sizes[number]:
            if lower < most:
                return None
            moved = min(lack, records[lower])
            records[lower] -= moved
            records[number] += moved
            lower -= 1
    return records if records[most] >= sizes[most] else None
