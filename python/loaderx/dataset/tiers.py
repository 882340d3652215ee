"""How large a dictionary is, and how much data trains it."""

from __future__ import annotations

from typing import TypedDict


class Tier(TypedDict):
    """`size`: bytes of the dictionary at most. `samples`: bytes of records that train it."""

    size: int
    samples: int


DICT_TIERS: dict[str, Tier] = {
    "fast": {"size": 32 << 10, "samples": 4 << 20},
    "balanced": {"size": 128 << 10, "samples": 16 << 20},
    "max": {"size": 1 << 20, "samples": 64 << 20},
}
"""Each read walks through the dictionary: a larger one compresses better and is slower to read."""

DEFAULT_TIER = "balanced"


def tier_named(name: str | None) -> Tier:
    """The tier of a name; None is the default. ValueError for a name that is none."""
    name = DEFAULT_TIER if name is None else name
    if not isinstance(name, str):
        raise TypeError(f"tier: expected one of {', '.join(DICT_TIERS)}, found {name!r}")
    if name not in DICT_TIERS:
        raise ValueError(f"tier: expected one of {', '.join(DICT_TIERS)}, found {name!r}")
    return DICT_TIERS[name]
