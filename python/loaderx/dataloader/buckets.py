"""Batches of records of like length."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx.arguments import U64_MAX, integer, refuse_masked, uint64_array
from loaderx.dataloader import arguments
from loaderx.dataloader.cutting import MOST_BOUNDS, bounds_of, by_length, cut, sizes_of
from loaderx.dataset import RaggedDataset
from loaderx.dataset.index import indices as selected
from loaderx.dataset.packed import offsets_of
from loaderx.sampler import Sampler, checked_mode


class Buckets:
    """Which records share a batch, so that padding is little and each step costs about the same: those of like length.

    Bucket b holds records of at most `bounds[b]` tokens, in batches of `batch_sizes[b]`. A step's batch is of one bucket, on all ranks. A
    pass has all batches of all buckets in an order of its own, and each record at most once: all of them but `left_over`, others in
    each pass, which fill no batch. The buckets have whole batches because a record may stand in a longer one than its own; so few do that
    what this costs is part of `padding`. None of it depends on the seed or on the number of ranks.

    Args:
        lengths: tokens of each record of the data, integers of at least 0, shape (n,); or a RaggedDataset, whose items are the tokens.
        tokens: the most that a step may take, of all ranks together, padded to the bucket's bound (an empty record takes one). Batch b
            has floor(tokens / bounds[b]) records.
        batch_size: or else the records of each batch.
        bounds: the longest record that each bucket takes, rising. None: lengths that there are, each shorter than the next by the factor
            `growth` at least, and in the end the longest record that the bucket has.
        growth: with `bounds=None`, at least 1.01. Padding is at most 1 - 1 / growth of a batch, but for those records that stand in a
            longer bucket than their own. The larger it is, the fewer buckets there are.
        multiple_of: what all batch sizes are multiples of: the number of ranks, or a multiple of it. It is part of the order.
        too_long: what to do with records that no bucket takes, those above the last of `bounds` or above `tokens // multiple_of`:
            "error", or "drop" to leave them out.
        indices: the records to draw from, as for a `DataLoader`. None: all.

    Raises:
        TypeError: an argument of another type.
        ValueError: no lengths, negative ones, one that is too long; neither or both of `tokens` and `batch_size`; bounds that don't
            rise or take more than `tokens`; fewer records than a batch has.
        IndexError: `indices` beyond the lengths.
    """

    def __init__(
        self,
        lengths: npt.ArrayLike | RaggedDataset,
        *,
        tokens: int | None = None,
        batch_size: int | None = None,
        bounds: Sequence[int] | npt.NDArray[np.integer[Any]] | None = None,
        growth: float = 1.125,
        multiple_of: int = 1,
        too_long: Literal["error", "drop"] = "error",
        indices: Any = None,
    ) -> None:
        multiple_of = integer(multiple_of, "multiple_of", minimum=1)
        budget, size = checked_budget(tokens, batch_size, multiple_of)
        given = None if bounds is None else checked_bounds(bounds, budget, multiple_of)
        drops = arguments.choice(too_long, "too_long", ("error", "drop")) == "drop"
        found = checked_lengths(lengths)
        self._length = len(found)
        refuse_masked(indices, "indices")
        chosen = None if indices is None else selected(indices, len(found))
        found = found if chosen is None else found[chosen]
        if found.size == 0:
            raise ValueError("indices: expected at least one record, found none")
        order = by_length(found)
        records, ordered = order if chosen is None else chosen[order], found[order]
        limit = given[-1] if given else budget // multiple_of if budget else None
        fitting = fitting_of(ordered, records, limit, drops)
        self._excluded = len(ordered) - fitting
        records, ordered = records[:fitting], ordered[:fitting]
        self._records = np.ascontiguousarray(records, np.uint64)
        self._records.flags.writeable = False
        tight = given or bounds_of(ordered, growth)
        sizes = sizes_of(tight, budget, size, multiple_of)
        ends = np.searchsorted(ordered, np.array(tight, np.uint64), "right")
        parts = cut(np.diff(ends, prepend=0).tolist(), sizes, multiple_of, may_shrink=budget is not None)
        self._counts = tuple(part.records for part in parts)
        self._batch_sizes = tuple(part.batch_size for part in parts)
        counts = np.array(self._counts)
        starts = offsets_of(counts)[:-1]
        longest = np.maximum(ordered[starts + counts - 1], 1).tolist()
        self._bounds = tuple(longest if given is None else (given[part.bound] for part in parts))
        self._means: list[float] = (np.add.reduceat(ordered, starts, dtype=np.float64) / counts).tolist()

    @property
    def length(self) -> int:
        """Records of the data: lengths that were given."""
        return self._length

    @property
    def records(self) -> npt.NDArray[np.uint64]:
        """The records of bucket 0, then of bucket 1, and so on, shape (sum(counts),), uint64, read-only."""
        return self._records

    @property
    def bounds(self) -> tuple[int, ...]:
        """The most tokens of a record of each bucket, never falling: what its batches may be padded to."""
        return self._bounds

    @property
    def counts(self) -> tuple[int, ...]:
        """Records of each bucket."""
        return self._counts

    @property
    def batch_sizes(self) -> tuple[int, ...]:
        """Records of a batch of each bucket, of all ranks together."""
        return self._batch_sizes

    @property
    def batches(self) -> int:
        """Steps of a pass."""
        return sum(count // size for count, size in zip(self._counts, self._batch_sizes, strict=True))

    @property
    def left_over(self) -> int:
        """Records that a pass leaves out, others each time: fewer than a batch."""
        return sum(count % size for count, size in zip(self._counts, self._batch_sizes, strict=True))

    @property
    def excluded(self) -> int:
        """Records that were too long, and are never drawn."""
        return self._excluded

    @property
    def padding(self) -> float:
        """The share of a pass that is padding if each batch is padded to the bound of its bucket. To its own longest record it is less."""
        drawn = [count // size * size for count, size in zip(self._counts, self._batch_sizes, strict=True)]
        tokens: float = sum(map(operator.mul, drawn, self._means))
        padded: int = sum(map(operator.mul, drawn, self._bounds))
        return 1.0 - tokens / padded

    def sampler(self, seed: int = 42, mode: int | None = None, *, rank: int = 0, world_size: int = 1) -> BucketSampler:
        """The records of each step, without a loader: `mode` cyclic (None) or sequential; of one of `world_size` ranks."""
        return BucketSampler(self, seed, mode, rank, world_size)

    def draws(self, mode: int, seed: int, rank: int, world_size: int) -> _core.Draws:
        """The order of a mode and a seed."""
        parts = list(zip(self._counts, self._batch_sizes, strict=True))
        return _core.Draws.bucketed(parts, mode, seed, rank, world_size, self._records)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._records.flags.writeable = False

    def __repr__(self) -> str:
        def span(numbers: Sequence[int]) -> str:
            return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"

        return (
            f"Buckets({len(self._records)} records in {len(self._bounds)} buckets, bounds {span(self._bounds)}, "
            f"batch sizes {span(self._batch_sizes)}; a pass: {self.batches} batches, {self.left_over} records left over, "
            f"{self.padding:.1%} padding)"
        )


class BucketSampler:
    """Which records each step has, as a pure function of (seed, step)."""

    def __init__(self, buckets: Buckets, seed: int, mode: int | None, rank: int, world_size: int) -> None:
        self.buckets = buckets
        seed, rank = integer(seed, "seed"), integer(rank, "rank")
        world_size = integer(world_size, "world_size", minimum=1)
        self._core = buckets.draws(bucket_mode(mode), seed, rank, world_size)

    def batch_at(self, step: int) -> npt.NDArray[np.uint64]:
        """The records of a step, uint64, shape (n,)."""
        return self._core.draw(integer(step, "step"))[0]

    def bound_at(self, step: int) -> int:
        """The bound of the bucket of a step: one for all ranks."""
        return self.buckets.bounds[self._core.bucket_at(integer(step, "step"))]


def bucket_mode(mode: int | None) -> int:
    """The number of a mode that buckets have: cyclic for None. ValueError for the one that they don't."""
    number = checked_mode(Sampler.Mode.CYCLIC if mode is None else mode)
    if number == Sampler.Mode.IID:
        raise ValueError(f"mode: expected cyclic or sequential with buckets, found {Sampler.Mode.IID!r}")
    return number


def checked_lengths(lengths: npt.ArrayLike | RaggedDataset) -> npt.NDArray[np.uint64]:
    """The tokens of each record. TypeError for what are no integers, ValueError for negative ones and for none."""
    if isinstance(lengths, RaggedDataset):
        lengths = lengths.lengths(slice(None)) // np.uint32(max(lengths.dtype.itemsize, 1))
    found = uint64_array(cast(npt.ArrayLike, lengths), "lengths")
    if found.size == 0:
        raise ValueError("lengths: expected one for each record, found none")
    return found


def fitting_of(ordered: npt.NDArray[np.uint64], records: npt.NDArray[Any], limit: int | None, drops: bool) -> int:
    """How many records, shortest first, fit into a bucket. ValueError if others may not be left out, or none is left."""
    fitting = len(ordered) if limit is None else int(np.searchsorted(ordered, np.uint64(min(limit, U64_MAX)), "right"))
    excluded = len(ordered) - fitting
    if excluded and (not drops or fitting == 0):
        raise ValueError(
            f"lengths: expected at most {limit}, the most that a bucket takes, found {excluded} longer ones, record {records[-1]} of "
            f'{ordered[-1]} the longest; too_long="drop" leaves them out where others are left'
        )
    return fitting


def checked_budget(tokens: Any, batch_size: Any, multiple_of: int) -> tuple[int | None, int | None]:
    """One of the two. ValueError for neither and for both, or a batch size that isn't a multiple."""
    if (tokens is None) == (batch_size is None):
        found = "neither" if tokens is None else "both"
        raise ValueError(f"tokens, batch_size: expected one of them, found {found}")
    if tokens is not None:
        return integer(tokens, "tokens", minimum=multiple_of), None
    size = integer(batch_size, "batch_size", minimum=1)
    if size % multiple_of:
        raise ValueError(f"batch_size: expected a multiple of multiple_of={multiple_of}, found {size}")
    return None, size


def checked_bounds(bounds: Any, budget: int | None, multiple_of: int) -> list[int]:
    """Bounds as integers that rise. TypeError and ValueError for the rest."""
    try:
        found = [integer(bound, "bounds", minimum=1) for bound in iter(bounds)]
    except TypeError as error:
        raise TypeError(f"bounds: expected a list of integers, found {bounds!r}") from error
    if not 1 <= len(found) <= MOST_BOUNDS:
        raise ValueError(f"bounds: expected 1 to {MOST_BOUNDS}, found {len(found)}")
    for before, bound in itertools.pairwise(found):
        if bound <= before:
            raise ValueError(f"bounds: expected rising ones, found {bound} after {before}")
    if budget is not None and found[-1] > budget // multiple_of:
        raise ValueError(
            f"bounds: expected at most {budget // multiple_of}, or tokens={budget} are too few for a batch of {multiple_of}, "
            f"found {found[-1]}"
        )
    return found
