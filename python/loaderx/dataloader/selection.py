"""Which records a step reads."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx.dataloader.mixture import Mixture
from loaderx.dataloader.ranks import Ranks
from loaderx.dataloader.sources import Indices, Sources
from loaderx.dataset.index import indices as selected
from loaderx.sampler import Sampler, checked_mode

MAX_STEP = 2**63 - 1


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
    ) -> None:
        self.batch_size, self.mode, self.seed, self.ranks = batch_size, mode, seed, ranks
        self.lengths = [
            length if table is None else len(table) for length, table in zip(sources.lengths, tables, strict=True)
        ]
        self._tables, self._weights = tables, weights
        self._schedule = None if mixture is None else mixture.weights_by_step(self.lengths)
        self._exact = mixture is not None and mixture.exact
        self._labels = sources.labels
        self.core = self._native()

    def _native(self) -> _core.Draws:
        rest = self.ranks.rank, self.ranks.world_size
        if self._schedule is not None:
            return _core.Draws.mixed(
                self.lengths, self.batch_size, self.mode, self.seed, self._schedule, self._exact, *rest, self._tables
            )
        if self._weights is not None:
            return _core.Draws.weighted(self._weights, self.batch_size, self.seed, *rest, self._tables[0])
        return _core.Draws.sampled(self.lengths[0], self.batch_size, self.mode, self.seed, *rest, self._tables[0])

    @property
    def places(self) -> range:
        """The places of this rank in the batch."""
        return self.ranks.places(self.batch_size)

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
) -> Selection:
    """The selection that a loader's arguments ask for.

    Raises:
        TypeError: an argument of another type.
        ValueError: a mode that doesn't go with weights, arguments that a mixture has for itself, no indices, bad weights, a cyclic batch
            larger than what is drawn from.
        IndexError: an index beyond the data.
    """
    if mode is None:
        mode = Sampler.Mode.CYCLIC if weights is None else Sampler.Mode.IID
    mode = checked_mode(mode)
    if weights is not None and mode != Sampler.Mode.IID:
        raise ValueError(f"mode: expected {Sampler.Mode.IID!r} or None with weights, found {mode}")
    if mixture is not None:
        for name, given in (("indices", indices), ("weights", weights)):
            if given is not None:
                raise ValueError(
                    f"{name}: expected None with a Mixture, which has its own, found {type(given).__name__}"
                )
        tables = [
            table(mixture.indices.get(label), length, f"indices: {label!r}")
            for label, length in zip(sources.labels, sources.lengths, strict=True)
        ]
        return Selection(sources, batch_size, mode, seed, ranks, tables=tables, mixture=mixture)
    tables = [table(indices, sources.lengths[0], "indices")]
    count = sources.lengths[0] if tables[0] is None else len(tables[0])
    return Selection(sources, batch_size, mode, seed, ranks, tables=tables, weights=checked_weights(weights, count))


def table(indices: Any, length: int, what: str) -> Indices | None:
    """The records to draw from, None for all."""
    if indices is None:
        return None
    chosen = selected(indices, length)
    if chosen.size == 0:
        raise ValueError(f"{what}: expected at least one record, found none")
    return chosen


def checked_weights(weights: Any, count: int) -> npt.NDArray[np.float64] | None:
    """One weight for each record that is drawn from. The core checks what they are."""
    if weights is None:
        return None
    array = np.asarray(weights)
    if array.dtype.kind not in "iufb":
        raise TypeError(f"weights: expected numbers, found dtype {array.dtype}")
    if array.shape != (count,):
        raise ValueError(f"weights: expected shape ({count},), one for each record to draw from, found {array.shape}")
    return np.ascontiguousarray(array, np.float64)
