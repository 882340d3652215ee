"""Which record goes to which part of a split."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from loaderx.arguments import integer
from loaderx.dataset.index import Indices, indices
from loaderx.dataset.packed import offsets_of
from loaderx.sampler import Sampler

ROUNDING = 1e-9
"""How far from 1 the sum of fractions may be."""


def shared_out(parts: Mapping[str, Any], length: int, seed: int, shuffle: bool) -> dict[str, Indices]:
    """Name of a part -> its records of `length`, each in one part; ascending, but where `parts` has the indices itself."""
    integer(seed, "seed")
    if all(isinstance(share, (float, np.floating)) for share in parts.values()):
        return drawn(by_fraction(parts, length), length, seed, shuffle)
    if all(is_count(share) for share in parts.values()):
        return drawn(by_count(parts, length), length, seed, shuffle)
    if any(isinstance(share, (float, np.floating)) or is_count(share) for share in parts.values()):
        kinds = {name: type(share).__name__ for name, share in parts.items()}
        raise TypeError(f"parts: expected all fractions, all numbers of records, or all indices, found {kinds}")
    return by_index(parts, length)


def is_count(share: object) -> bool:
    """Whether a share is a number of records."""
    return isinstance(share, (int, np.integer)) and not isinstance(share, bool)


def by_fraction(parts: Mapping[str, float], length: int) -> dict[str, int]:
    """Sizes that add up to `length`: each is rounded down, and the parts with the largest remainders get one more."""
    for name, fraction in parts.items():
        if not 0 <= fraction <= 1:
            raise ValueError(f"parts: {name}: expected a fraction from 0 to 1, found {fraction}")
    total = math.fsum(parts.values())
    if abs(total - 1) > ROUNDING:
        raise ValueError(f"parts: expected fractions that add up to 1, found {dict(parts)}, which add up to {total}")
    exact = {name: length * float(fraction) / total for name, fraction in parts.items()}
    sizes = {name: math.floor(size) for name, size in exact.items()}
    most = sorted(exact, key=lambda name: sizes[name] - exact[name])
    for name in most[: length - sum(sizes.values())]:
        sizes[name] += 1
    return sizes


def by_count(parts: Mapping[str, Any], length: int) -> dict[str, int]:
    """The sizes that are given."""
    sizes = {name: integer(size, f"parts: {name}") for name, size in parts.items()}
    if sum(sizes.values()) != length:
        raise ValueError(f"parts: expected sizes that add up to {length} records, found {sizes}")
    return sizes


def drawn(sizes: Mapping[str, int], length: int, seed: int, shuffle: bool) -> dict[str, Indices]:
    """Parts of these sizes, which add up to `length`."""
    order = np.arange(length, dtype=np.uint64)
    if shuffle and length:
        # The first cycle of a shuffled loader of this seed, all of it as one batch.
        order = Sampler(length, length, Sampler.Mode.CYCLIC, seed).batch_at(0)
    places = offsets_of(list(sizes.values()))
    return {name: np.sort(part) for name, part in zip(sizes, np.split(order, places[1:-1]), strict=True)}


def by_index(parts: Mapping[str, Any], length: int) -> dict[str, Indices]:
    """The indices that are given. ValueError unless each record is in one part."""
    owner = np.full(length, -1, np.int32)
    shares: dict[str, Indices] = {}
    names = list(parts)
    for number, name in enumerate(names):
        index = indices(parts[name], length)
        placed = index.astype(np.int64)
        if (taken := owner[placed] >= 0).any():
            record = int(index[np.argmax(taken)])
            raise ValueError(f"parts: record {record} is in {names[owner[record]]!r} and in {name!r}")
        owner[placed] = number
        if np.count_nonzero(owner == number) != index.size:
            values, counts = np.unique(index, return_counts=True)
            raise ValueError(f"parts: record {values[np.argmax(counts > 1)]} is in {name!r} more than once")
        shares[name] = index
    if (left := owner < 0).any():
        raise ValueError(
            f"parts: expected each record in one of them, found record {int(np.argmax(left))} in none, "
            f"and {np.count_nonzero(left) - 1} others; `select` writes some of the records"
        )
    return shares
