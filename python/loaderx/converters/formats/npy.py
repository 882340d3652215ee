"""NumPy's own files: an array in a `.npy`, records along its first axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from loaderx.converters.finding import with_suffix
from loaderx.converters.formats.npyfile import InFile, as_said, header_of
from loaderx.converters.formats.splits import one_split
from loaderx.converters.source import ITSELF, Block, Format, Part, StreamSpec
from loaderx.dataset.dtypes import described


class NpyFiles:
    """Arrays of one dtype and item shape, one after another."""

    def __init__(self, files: Sequence[Path], *, dtype: Any = None) -> None:
        self.files = files
        self._arrays = [in_file(file, dtype) for file in files]
        first = self._arrays[0].header
        for file, array in zip(files, self._arrays, strict=True):
            header = array.header
            if (header.dtype, header.item_shape) != (first.dtype, first.item_shape):
                raise ValueError(
                    f"{file}: expected records like those of {files[0]}, {first.item_shape} {described(first.dtype)}, "
                    f"found {header.item_shape} {described(header.dtype)}"
                )
        self.streams = [StreamSpec(ITSELF, "dense", first.dtype, first.item_shape, first.note)]

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(map(len, self._arrays))

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """Rows of one file after the other."""
        for array in self._arrays:
            step = array.header.step
            for first in range(start, len(array), step):
                yield partial(rows, array, first, min(first + step, len(array)))
            start = max(0, start - len(array))

    def close(self) -> None:
        """Nothing is kept open."""


def in_file(file: Path, dtype: Any) -> InFile:
    """The array of a file, a void as the `dtype` that it is said to be. ValueError for what has no records, or holds objects."""
    with file.open("rb") as stream:
        header = as_said(header_of(stream, str(file)), dtype, str(file))
    return InFile(file, header.size, header, str(file))


def rows(array: InFile, start: int, stop: int) -> Block:
    """Records of an array."""
    return {ITSELF: array.read(start, stop)}


FORMAT = Format("npy", "NumPy .npy", lambda path: one_split(path, with_suffix(path, [".npy"])), NpyFiles)
