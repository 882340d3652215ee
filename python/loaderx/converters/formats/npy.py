"""NumPy's own files: an array in a `.npy`, records along its first axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from loaderx.converters.finding import with_suffix
from loaderx.converters.source import ITSELF, PART_BYTES, Array, Block, Format, Part, StreamSpec
from loaderx.dataset.dtypes import described, storable


class NpyFiles:
    """Arrays of one dtype and item shape, one after another."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = files
        self._arrays = [mapped(file) for file in files]
        first = self._arrays[0]
        for file, array in zip(files, self._arrays, strict=True):
            if (array.dtype, array.shape[1:]) != (first.dtype, first.shape[1:]):
                raise ValueError(
                    f"{file}: expected records like those of {files[0]}, {first.shape[1:]} {described(first.dtype)}, "
                    f"found {array.shape[1:]} {described(array.dtype)}"
                )
        self.streams = [StreamSpec(ITSELF, "dense", storable(first.dtype), first.shape[1:])]

    def __len__(self) -> int:
        return sum(map(len, self._arrays))

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """Rows of one file after the other."""
        for array in self._arrays:
            step = max(1, PART_BYTES // max(1, array[:1].nbytes))
            for first in range(start, len(array), step):
                yield partial(rows, array, first, min(first + step, len(array)))
            start = max(0, start - len(array))

    def close(self) -> None:
        """Let go of the files."""
        self._arrays = []


def mapped(file: Path) -> Array:
    """The array of a file, in the file. ValueError for what has no records, or holds objects."""
    try:
        array: Array = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{file}: expected an array of a fixed-width dtype: {error}") from error
    if array.ndim == 0:
        raise ValueError(f"{file}: expected an array with an axis of records, found shape ()")
    return array


def rows(array: Array, start: int, stop: int) -> Block:
    """Records of an array, read from the disk now."""
    return {ITSELF: np.array(array[start:stop])}


FORMAT = Format("npy", "NumPy .npy", lambda path: with_suffix(path, [".npy"]), NpyFiles)
