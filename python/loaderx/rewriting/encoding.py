"""How the records of new stores are encoded."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from loaderx.copying.snapshot import Snapshot
from loaderx.dataset.tiers import tier_named
from loaderx.rewriting.picked import Picked
from loaderx.utils.gain import Gain, trained_for
from loaderx.zrecord import check_codec


class Encoding(NamedTuple):
    """What was asked for; None is what the source has."""

    codec: str | None
    level: int | None
    dict_tier: str | None
    dict_bytes: bytes | None


class Settled(NamedTuple):
    """What becomes of one stream. `trained`: whether the dictionary was made for it; `gain` is None where that could not be measured."""

    codec: str
    level: int | None
    dictionary: bytes | None = None
    trained: bool = False
    gain: Gain | None = None


def check(asked: Encoding) -> None:
    """ValueError or TypeError for what fits no store."""
    check_codec(asked.codec)
    if asked.dict_tier is not None:
        tier_named(asked.dict_tier)
    if asked.dict_tier is not None and asked.dict_bytes is not None:
        raise ValueError("dict_tier and dict_bytes: expected one of them: a dictionary is trained, or given")


def settled(asked: Encoding, first: Snapshot, records: Picked, scratch: Path) -> Settled:
    """The encoding of one stream, whose records are like those of `first`. ZrecordError if no dictionary can be trained on `records`."""
    codec = asked.codec or first.codec
    level = first.level if asked.level is None and codec == first.codec else asked.level
    if codec != "zstd_dict":
        for name, value in (("dict_tier", asked.dict_tier), ("dict_bytes", asked.dict_bytes)):
            if value is not None:
                raise ValueError(f"{name}: expected none for codec {codec!r}; only 'zstd_dict' has a dictionary")
        return Settled(codec, level)
    if asked.dict_bytes is not None:
        return Settled(codec, level, asked.dict_bytes)
    if asked.dict_tier is None and (found := first.dictionary()) is not None:
        return Settled(codec, level, found)
    if not len(records):
        return Settled(codec, level)
    dictionary, gain = trained_for(first.path, records, asked.dict_tier, level, scratch)
    return Settled(codec, level, dictionary, trained=True, gain=gain)
