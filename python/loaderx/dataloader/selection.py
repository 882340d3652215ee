"""Which records a step reads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx.arguments import integer, refuse_masked
from loaderx.dataloader.buckets import Buckets, bucket_mode
from loaderx.dataloader.mixture import Mixture
from loaderx.dataloader.ranks import Ranks
from loaderx.dataloader.sources import Indices, Sources
from loaderx.dataset.index import indices as selected
from loaderx.sampler import Sampler, checked_mode

MAX_STEP = 2**63 - 1
BATCH_SIZE = 256
"""Records a step where nothing is said."""


class Selection:
    """Which records a step reads: one function of (seed, step), of which this rank has its places.

    Drawn are places in the tables of `indices` where there are some, else records.
    """

    def __init__(
        self,
        sources: Sources,
        batch_size: int,
        mode: int,
        seed: int,
        ranks: Ranks,
        *,
        tables: list[Indices | None],
        weights: npt.NDArray[np.float64] | None = None,
        mixture: Mixture | None = None,
        buckets: Buckets | None = None,
    ) -> None:
        # The largest one, where batches differ in size.
        self.batch_size, self.mode, self.seed, self.ranks = batch_size, mode, seed, ranks
        self.lengths = [
            length if table is None else len(table) for length, table in zip(sources.lengths, tables, strict=True)
        ]
        self._tables, self._weights, self._buckets = tables, weights, buckets
        self._schedule = None if mixture is None else mixture.weights_by_step(self.lengths)
        self._exact = mixture is not None and mixture.exact
        self._labels = sources.labels
        self.core = self._native()

    def _native(self) -> _core.Draws:
        rest = self.ranks.rank, self.ranks.world_size
        if self._buckets is not None:
            return self._buckets.draws(self.mode, self.seed, *rest)
        if self._schedule is not None:
            return _core.Draws.mixed(
                self.lengths, self.batch_size, self.mode, self.seed, self._schedule, self._exact, *rest, self._tables
            )
        if self._weights is not None:
            return _core.Draws.weighted(self._weights, self.batch_size, self.seed, *rest, self._tables[0])
        return _core.Draws.sampled(self.lengths[0], self.batch_size, self.mode, self.seed, *rest, self._tables[0])

    @property
    def local_batch_size(self) -> int:
        """Records of a step of this rank; the most of any step, where batches differ in size."""
        return self.core.count

    def first_place(self, step: int) -> int:
        """Where this rank's part of the batch of a step begins."""
        return self.core.places(step)[0]

    @property
    def steps_per_pass(self) -> int:
        """Steps after which about as many records were drawn as there are."""
        return max(1, sum(self.lengths) // self.batch_size) if self._buckets is None else self._buckets.batches

    def digest(self) -> str | None:
        """What tells one choice of records from another; None where all of one data set are drawn alike."""
        tables = [table for table in self._tables if table is not None]
        if self._schedule is None and self._weights is None and not tables:
            return None
        digest = hashlib.blake2b(repr((self._labels, self._schedule, self._exact)).encode(), digest_size=8)
        for table in self._tables:
            digest.update(b"all" if table is None else b"some" + np.uint64(len(table)).tobytes())
            digest.update(b"" if table is None else table.data)
        if self._weights is not None:
            digest.update(self._weights.data)
        if self._buckets is not None:
            digest.update(repr((self._buckets.counts, self._buckets.batch_sizes)).encode())
        return digest.hexdigest()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "core"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.core = self._native()


def select(
    sources: Sources,
    mixture: Mixture | None,
    batch_size: int,
    mode: int | None,
    seed: int,
    ranks: Ranks,
    indices: Any,
    weights: Any,
    buckets: Buckets | None,
) -> Selection:
    """The selection that a loader's arguments ask for.

    Raises:
        TypeError: an argument of another type.
        ValueError: a mode that doesn't go with weights or buckets, arguments that a mixture or buckets have for themselves, no indices,
            bad weights, a cyclic batch larger than what is drawn from.
        IndexError: an index beyond the data.
    """
    if buckets is not None:
        refuse(indices=indices, weights=weights, with_what="buckets; Buckets(indices=...) restricts those")
        return bucketed(sources, buckets, batch_size, mode, seed, ranks)
    if mode is None:
        mode = Sampler.Mode.CYCLIC if weights is None else Sampler.Mode.IID
    mode = checked_mode(mode)
    if weights is not None and mode != Sampler.Mode.IID:
        raise ValueError(f"mode: expected {Sampler.Mode.IID!r} or None with weights, found {mode}")
    if mixture is not None:
        refuse(indices=indices, weights=weights, with_what="a Mixture, which has its own")
        tables = [
            table(mixture.indices.get(label), length, f"indices: {label!r}")
            for label, length in zip(sources.labels, sources.lengths, strict=True)
        ]
        return Selection(sources, batch_size, mode, seed, ranks, tables=tables, mixture=mixture)
    tables = [table(indices, sources.lengths[0], "indices")]
    count = sources.lengths[0] if tables[0] is None else len(tables[0])
    return Selection(sources, batch_size, mode, seed, ranks, tables=tables, weights=checked_weights(weights, count))


def bucketed(
    sources: Sources, buckets: Buckets, batch_size: int, mode: int | None, seed: int, ranks: Ranks
) -> Selection:
    """The selection of batches that are each of one bucket. ValueError if the buckets are of other data."""
    if buckets.length != sources.lengths[0]:
        raise ValueError(f"buckets: expected lengths of the {sources.lengths[0]} records, found {buckets.length}")
    return Selection(sources, batch_size, bucket_mode(mode), seed, ranks, tables=[buckets.records], buckets=buckets)


def refuse(*, with_what: str, **given: Any) -> None:
    """ValueError if one of these is given."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}: expected None with {with_what}, found {type(value).__name__}")


def batch_sizes_of(batch_size: int | None, buckets: Buckets | None, mixture: Mixture | None) -> Sequence[int]:
    """Records of each step, of all ranks together: all sizes that there are.

    Raises:
        TypeError: no batch size, no buckets.
        ValueError: a batch size out of bounds, or one with buckets; buckets of a mixture.
    """
    if buckets is None:
        return (BATCH_SIZE if batch_size is None else integer(batch_size, "batch_size", minimum=1),)
    if not isinstance(buckets, Buckets):
        raise TypeError(f"buckets: expected Buckets or None, found {type(buckets).__name__}")
    if batch_size is not None:
        raise ValueError(f"batch_size: expected None with buckets, which have their own, found {batch_size}")
    if mixture is not None:
        raise ValueError("buckets: expected None with a Mixture, found Buckets")
    return buckets.batch_sizes


def table(indices: Any, length: int, what: str) -> Indices | None:
    """The records to draw from, None for all."""
    if indices is None:
        return None
    refuse_masked(indices, what)
    chosen = selected(indices, length)
    if chosen.size == 0:
        raise ValueError(f"{what}: expected at least one record, found none")
    return chosen


def checked_weights(weights: Any, count: int) -> npt.NDArray[np.float64] | None:
    """One weight for each record that is drawn from. The core checks what they are."""
    if weights is None:
        return None
    refuse_masked(weights, "weights")
    array = np.asarray(weights)
    if array.dtype.kind not in "iufb":
        raise TypeError(f"weights: expected numbers, found dtype {array.dtype}")
    if array.shape != (count,):
        raise ValueError(f"weights: expected shape ({count},), one for each record to draw from, found {array.shape}")
    return np.ascontiguousarray(array, np.float64)
