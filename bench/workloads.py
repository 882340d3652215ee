"""The workloads: seeded records that compress about as much as real samples of their kind.

Rows are made in blocks, each from the seed and its number alone, so that any part can be made again without the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import truth

BLOCK_BYTES = 32 << 20
SEED = 20260

Maker = Callable[[np.random.Generator, int, tuple[int, ...]], npt.NDArray[Any]]


def images(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """A soft gradient of its own brightness under camera noise: zstd takes an image to about two thirds."""
    size = int(np.prod(shape))
    place = np.linspace(0, 3, size, dtype=np.float32) + rng.uniform(0, 6, (count, 1)).astype(np.float32)
    pixels = 10 * np.sin(place) + rng.uniform(60, 190, (count, 1)).astype(np.float32)
    pixels += 8 * rng.standard_normal((count, size), np.float32)
    rows: npt.NDArray[Any] = np.clip(pixels, 0, 255).astype(np.uint8).reshape(count, *shape)
    return rows


def tokens(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Word numbers as Zipf's law has them, the last quarter repeating the first: zstd takes it to two fifths."""
    words = (50_000 ** rng.random((count, *shape), np.float32)).astype(np.int32)
    phrase = words.shape[1] // 4
    words[:, -phrase:] = words[:, :phrase]
    return words


def labels(rng: np.random.Generator, count: int, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return rng.integers(0, 1000, (count, *shape))


@dataclass(frozen=True)
class Workload:
    """Records of one shape."""

    name: str
    count: int
    dtype: str
    shape: tuple[int, ...]
    make: Maker
    kind: str = "dense"

    @property
    def record_bytes(self) -> int:
        return np.dtype(self.dtype).itemsize * int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        return self.count * self.record_bytes

    def blocks(self) -> Iterator[npt.NDArray[Any]]:
        step = max(1, BLOCK_BYTES // self.record_bytes)
        for number, start in enumerate(range(0, self.count, step)):
            rng = np.random.default_rng([SEED, number])
            yield self.make(rng, min(step, self.count - start), self.shape).astype(self.dtype, copy=False)

    def write_truth(self, folder: Path) -> None:
        shape = (self.count, *self.shape)
        rows = np.lib.format.open_memmap(folder / "rows.npy", mode="w+", dtype=self.dtype, shape=shape)
        start = 0
        for block in self.blocks():
            rows[start : start + len(block)] = block
            start += len(block)
        rows.flush()
        truth.describe(folder)


@dataclass(frozen=True)
class RaggedWorkload:
    """Token sequences of `shortest` to `longest` items, each length as likely as another."""

    name: str
    count: int
    shortest: int
    longest: int
    dtype: str = "<i4"
    kind: str = "ragged"

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        return np.random.default_rng([SEED, 0]).integers(self.shortest, self.longest + 1, self.count)

    @property
    def nbytes(self) -> int:
        return int(self.lengths.sum()) * np.dtype(self.dtype).itemsize

    @property
    def record_bytes(self) -> int:
        """Of a record on average."""
        return self.nbytes // self.count

    def write_truth(self, folder: Path) -> None:
        lengths = self.lengths
        words = tokens(np.random.default_rng([SEED, 1]), self.count, (self.longest,)).astype(self.dtype, copy=False)
        np.save(folder / "values.npy", words[np.arange(self.longest) < lengths[:, None]])
        np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
        truth.describe(folder)


WORKLOADS: tuple[Workload | RaggedWorkload, ...] = (
    Workload("image256k", 1_500, "|u1", (512, 512), images),
    Workload("vision147k", 2_500, "|u1", (3, 224, 224), images),
    Workload("patch12k", 20_000, "|u1", (3, 64, 64), images),
    Workload("token2k", 200_000, "<i4", (512,), tokens),
    Workload("label8", 1_000_000, "<i8", (), labels),
    RaggedWorkload("ragged", 200_000, 16, 512),
    RaggedWorkload("ragged_short", 1_000_000, 4, 64, kind="ragged_short"),
)

# Large enough that what a disk or a system reads ahead is not what a later batch asks for.
COLD = (
    Workload("cold147k", 12_000, "|u1", (3, 224, 224), images),
    Workload("cold12k", 150_000, "|u1", (3, 64, 64), images),
    Workload("cold2k", 1_000_000, "<i4", (512,), tokens),
)

# Of the size and form of Fashion-MNIST, with pixels that are made up; and the token set.
CONVERTED: tuple[Workload | RaggedWorkload, ...] = (
    Workload("fashion", 70_000, "|u1", (28, 28), images),
    RaggedWorkload("tokens", 200_000, 16, 512),
)

AUGMENTED_WORKLOAD = Workload("patch12k", 20_000, "|u1", (3, 64, 64), images)

LOADED = tuple(
    workload for workload in WORKLOADS if isinstance(workload, Workload) and workload.name in ("vision147k", "token2k")
)
