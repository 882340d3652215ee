"""The simplest sources, for what all formats share: two files of NumPy, and a source of two streams that is no file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import loaderx.converters.finding as finding
import numpy as np
import pytest
from loaderx.converters.identity import Identity
from loaderx.converters.source import Block, Format, Part, StreamSpec
from loaderx.dataset import Packed
from support import Array


def numbered() -> Array:
    """200 records."""
    return np.arange(600, dtype=np.int32).reshape(200, 3)


def two_files(directory: Path) -> Path:
    """Files of 100 of them each."""
    directory.mkdir()
    np.save(directory / "part-2.npy", numbered()[:100])
    np.save(directory / "part-10.npy", numbered()[100:])
    return directory


class Numbers:
    """A source of two streams without any file."""

    def __init__(self, given: Any, *, last: int = 50, counted: bool = True, known: bool = True) -> None:
        self.files: Sequence[Path] = []
        self.last, self._counted = last, counted
        self.identity: Identity = lambda: f"numbers of {given}" if known else None
        self.streams = [
            StreamSpec("square", "dense", np.dtype(np.int64), (), "column 'x'", {"unit": "m"}),
            StreamSpec("run", "ragged", np.dtype(np.uint8)),
        ]

    @property
    def records(self) -> int | None:
        return self.last if self._counted else None

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        for first in range(start, self.last, 7):
            yield partial(self.block, first, min(first + 7, self.last), names)

    def block(self, start: int, stop: int, names: Sequence[str]) -> Block:
        runs = np.arange(start, stop)
        offsets = np.concatenate([[0], np.cumsum(runs % 5)]).astype(np.int64)
        whole: Block = {
            "square": runs**2,
            "run": Packed(np.repeat(runs, runs % 5).astype(np.uint8), offsets, None),
        }
        return {name: whole[name] for name in names}

    def close(self) -> None: ...


def known_numbers(monkeypatch: pytest.MonkeyPatch) -> str:
    """A format that takes the text "numbers" in a set."""
    form = Format("numbers", "Numbers", lambda path: [], Numbers, takes=lambda value: value == {"numbers"})
    known = finding.formats() | {"numbers": form}
    monkeypatch.setattr(finding, "formats", lambda: known)
    return "numbers"
