"""What is measured of one store. It is opened for reading only."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx.bench.timing import ROUNDS, Figure, side_by_side, times
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.dataset import schema as schemas
from loaderx.sampler import Sampler
from loaderx.zrecord import Verify

BATCHES = (16, 256, 2048)
LOADER_BATCH = 256
BATCH_BYTES = 256 << 20
"""No batch is made larger than about this."""
MADE_AHEAD = 12
"""Batches; no loader with its defaults has more of them ready."""
PREPARED = 64
"""Batches whose indices are drawn before anything is timed."""
SECONDS = 20.0
COPY = "plain copy of as many bytes"


@dataclass(frozen=True)
class Measured:
    """A store and its figures."""

    path: str
    kind: str
    codec: str
    records: int
    record_bytes: float
    """On average."""
    figures: list[Figure]


def measure(path: Path, seconds: float = SECONDS) -> Measured:
    """All figures of the store at `path`, in about `seconds`.

    Raises:
        FileNotFoundError, ZrecordError: there is no store, or a damaged one.
        ValueError: a store without records.
    """
    with ExitStack() as stack:
        always, never = opened(path, "always"), opened(path, "never")
        stack.callback(always.close)
        stack.callback(never.close)
        if len(always) == 0:
            raise ValueError(f"{path}: the store holds no records")
        mean = float(always.lengths(np.linspace(0, len(always) - 1, min(len(always), 4096)).astype(np.uint64)).mean())
        most = max(1, min(len(always), int(BATCH_BYTES / max(mean, 1))))
        sizes = sorted({min(size, most) for size in BATCHES})
        # The loader and the opening get a share each, the samplers half of one.
        share = seconds / (2 * len(sizes) + 2.5)
        figures = opening(path, share)
        for size in sizes:
            figures += gathers("random", random_batches(len(always), size), always, never, mean, share)
            figures += gathers("sequential", windows(len(always), size), always, never, mean, share)
        batch = min(LOADER_BATCH, most)
        figures += samplers(len(always), batch, share / 2)
        figures += loader(always, batch, mean, share)
        return Measured(str(path), always.kind, always.codec, len(always), mean, figures)


def opened(path: Path, verify: Verify) -> DenseDataset | RaggedDataset:
    """The store as what its schema says it is."""
    kind = DenseDataset if schemas.read(path).kind == "dense" else RaggedDataset
    return kind(path, verify=verify, read_only=True)


def opening(path: Path, seconds: float) -> list[Figure]:
    """Opening and closing."""
    return side_by_side({"open": lambda: opened(path, "always").close()}, 0, 0, min(seconds, 0.5))


def random_batches(length: int, size: int) -> Callable[[int], npt.NDArray[np.int64]]:
    """Batch i of a few that are drawn beforehand."""
    drawn = np.random.default_rng(0).integers(0, length, (PREPARED, size))
    return lambda number: drawn[number % PREPARED]


def windows(length: int, size: int) -> Callable[[int], slice]:
    """Batch i of the records in order."""
    count = length // size
    return lambda number: slice(number % count * size, (number % count + 1) * size)


def gathers(
    order: str,
    batches: Callable[[int], Any],
    always: DenseDataset | RaggedDataset,
    never: DenseDataset | RaggedDataset,
    mean: float,
    seconds: float,
) -> list[Figure]:
    """Gathers with and without checks, beside a copy of as many bytes into a buffer that is used again."""
    first = batches(0)
    size = len(first) if isinstance(first, np.ndarray) else first.stop - first.start
    source = np.ones(max(1, round(size * mean)), np.uint8)
    target = np.ones_like(source)

    def gather(dataset: DenseDataset | RaggedDataset) -> Callable[[], object]:
        numbers = iter(range(1 << 62))
        return lambda: dataset[batches(next(numbers))]

    actions: dict[str, Callable[[], object]] = {
        f"{order}, verify always": gather(always),
        f"{order}, verify never": gather(never),
        COPY: lambda: np.copyto(target, source),
    }
    return side_by_side(actions, size, size * mean, seconds)


def samplers(length: int, batch: int, seconds: float) -> list[Figure]:
    """Index batches of each mode."""
    actions = {f"sampler, {mode.name.lower()}": Sampler(length, batch, mode).next for mode in Sampler.Mode}
    return side_by_side(actions, batch, batch * 8, seconds)


def loader(dataset: DenseDataset | RaggedDataset, batch: int, mean: float, seconds: float) -> list[Figure]:
    """Batches from a loader with its defaults: what comes out in the long run, so what was made ahead is not counted."""
    rounds = []
    with DataLoader({"data": dataset}, batch_size=batch) as batches:
        for _ in range(ROUNDS):
            for _ in range(MADE_AHEAD):
                next(batches)
            rounds.append(fmean(times(batches.__next__, seconds / ROUNDS)))
    return [Figure("loader", batch, batch * mean, rounds)]
