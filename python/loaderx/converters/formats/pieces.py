"""Pieces of a buffer as the records of a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from loaderx.converters.source import PART_BYTES, Array, StreamSpec
from loaderx.dataset.packed import Packed
from loaderx.dataset.streams import names_a_child

Nulls: TypeAlias = Literal["refuse", "mask"]
Places = npt.NDArray[np.int64]
SHORT = 256
"""Pieces that are shorter than this on average are copied by an index of their bytes, longer ones one by one."""


def gathered(buffer: Array, starts: Places, sizes: Places) -> Packed:
    """Pieces of a buffer of bytes one after another."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    total = int(offsets[-1])
    if len(sizes) == 0 or total == 0:
        return Packed(np.zeros(0, np.uint8), offsets, None)
    if np.array_equal(starts[0] + offsets[:-1], starts):
        return Packed(buffer[int(starts[0]) : int(starts[0]) + total], offsets, None)
    if total < SHORT * len(sizes):
        return Packed(buffer[np.arange(total) + np.repeat(starts - offsets[:-1], sizes)], offsets, None)
    ends = starts + sizes
    pieces = [buffer[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    return Packed(np.concatenate(pieces), offsets, None)


def joined(contents: Sequence[bytes]) -> Packed:
    """Records of bytes, one after another."""
    offsets = np.zeros(len(contents) + 1, np.int64)
    np.cumsum([len(content) for content in contents], out=offsets[1:])
    return Packed(np.frombuffer(b"".join(contents), np.uint8), offsets, None)


def steps(sizes: Places, start: int, most: int = 1 << 16) -> list[tuple[int, int]]:
    """Ranges of records from `start` on, of about PART_BYTES and at most `most` records each, but of at least one."""
    ends = np.cumsum(sizes, dtype=np.int64)
    ranges: list[tuple[int, int]] = []
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + PART_BYTES, side="right"))
        stop = min(max(stop, start + 1), start + most)
        ranges.append((start, min(stop, len(sizes))))
        start = ranges[-1][1]
    return ranges


def check_text(packed: Packed, where: Callable[[int], str]) -> Packed:
    """Records that are text, as UTF-8. ValueError where one isn't: `where` names it."""
    values, offsets = packed.values, packed.offsets
    begins = values[offsets[:-1][np.diff(offsets) > 0]]
    whole = not ((begins & 0xC0) == 0x80).any()
    if whole and is_text(values):
        return packed
    for at, (start, end) in enumerate(pairwise(offsets.tolist())):
        if not is_text(values[start:end]):
            raise ValueError(f"{where(at)}: expected text in UTF-8, found other bytes")
    return packed


def is_text(values: Array) -> bool:
    """Whether bytes are UTF-8."""
    try:
        str(np.ascontiguousarray(values).data, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def check_nulls(nulls: Any) -> None:
    """ValueError for a value that the option `nulls` doesn't have."""
    if nulls not in ("refuse", "mask"):
        raise ValueError(f"nulls: expected 'refuse' or 'mask', found {nulls!r}")


def valid_spec(name: str, origin: str) -> StreamSpec:
    """The stream that says which records of stream `name` are there."""
    return StreamSpec(f"{name}.valid", "dense", np.dtype(bool), (), origin)


def unique_names(specs: Sequence[StreamSpec]) -> Sequence[StreamSpec]:
    """The streams, each name once. ValueError for two of one name, and for a name that no directory can have."""
    names: dict[str, StreamSpec] = {}
    for spec in specs:
        if not names_a_child(spec.name):
            raise ValueError(f"{spec.origin}: a stream is a directory, and can't have the name {spec.name!r}")
        other = names.setdefault(spec.name, spec)
        if other is not spec:
            raise ValueError(f"two streams would be called {spec.name!r}: of {other.origin}, and of {spec.origin}")
    return specs
