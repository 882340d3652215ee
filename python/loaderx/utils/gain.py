"""What a zstd dictionary gains, measured on records that did not train it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.dataset.dtypes import contiguous, storable
from loaderx.dataset.foreign import array_of, is_array
from loaderx.dataset.index import Indices
from loaderx.dataset.packed import offsets_of, refuse_packed
from loaderx.dataset.tiers import tier_named
from loaderx.utils.dictionary import Sample, Stored, as_bytes, first_bytes, sampled, spread, trained_on
from loaderx.zrecord import PathLike, Zrecord, ZrecordError

LEVEL = 19
"""The level at which "zstd_dict" stores encode unless told otherwise."""
HOLD_OUT = 16
"""Of the sample, one record in so many is held out."""
FEWEST = 8
"""Fewer held-out records tell nothing."""
MEASURED_BYTES = 4 << 20
"""About how much is measured: level 19 encodes a few MiB a second."""
LONGEST = 16 << 20
"""Longer records are not measured; a dictionary does nothing for them."""


class Gain(NamedTuple):
    """What a dictionary gains on records that did not train it; `str()` says it in a line."""

    records: int
    """The number of records that were measured."""
    bytes: int
    """Their bytes, not encoded."""
    zstd: int
    """Their bytes with zstd alone, at the same level."""
    zstd_dict: int
    """Their bytes with the dictionary, which itself is not counted."""
    dictionary: int
    """The bytes of the dictionary, of which a store has one."""
    level: int
    """The zstd level of both."""

    @property
    def ratio(self) -> float:
        """How many bytes one byte with the dictionary stands for."""
        return self.bytes / max(1, self.zstd_dict)

    @property
    def gain(self) -> float:
        """The part of zstd's bytes that the dictionary saves; not above 0 where it saves none."""
        return 1 - self.zstd_dict / max(1, self.zstd)

    def __str__(self) -> str:
        """In a line."""
        shares = f"{self._share(self.zstd_dict)} of their bytes with it, {self._share(self.zstd)} without"
        measured = f"records take {shares}, at level {self.level}; measured on {self.records:,} that did not train it"
        if self.gain > 0:
            return f"the dictionary saves {self.gain:.1%} ({measured})"
        better = "zstd" if self.zstd < self.bytes else "raw"
        return f"the dictionary gains nothing, {better!r} is the better codec ({measured})"

    def _share(self, size: int) -> str:
        return f"{size / max(1, self.bytes):.1%}"


class Written(int):
    """The number of records that were written."""

    gains: dict[str, Gain | None]
    """Name of the stream ("" for one store) -> what the dictionary that was trained for it gains on records held out of the training; None
    where there were too few records to hold any out."""

    def __new__(cls, records: int, gains: Mapping[str, Gain | None]) -> Written:
        """So many, with these."""
        self = super().__new__(cls, records)
        self.gains = dict(gains)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Written, (int(self), self.gains)


def dictionary_gain(source: Any, dict_bytes: bytes, *, level: int = LEVEL) -> Gain:
    """Encode records with a dictionary and without it, and say how large they get.

    Args:
        source: records that did not train the dictionary (those that did would flatter it): a stacked array, a list of records, a
            dataset or a `Zrecord`. Records spread over all of it are measured, about 4 MiB; those over 16 MiB are left out.
        dict_bytes: a dictionary, from `train_dict` or `measured_dict`.
        level: the zstd level.

    Raises:
        TypeError: no such source.
        ValueError: nothing to measure: no records with bytes in them; or `dict_bytes` is no dictionary.
        ZrecordError: a damaged store.
    """
    records = stored(source, "dictionary_gain")
    chosen = measurable(records, sampled(records, MEASURED_BYTES))
    if not chosen.size:
        raise ValueError("dictionary_gain: expected records of 1 byte to 16 MiB, found none")
    return measured(records, chosen, dict_bytes, level)


def measured_dict(
    source: Any, tier: str | None = None, *, level: int = LEVEL, scratch: PathLike | None = None
) -> tuple[bytes, Gain | None]:
    """Train a dictionary as `train_dict` does, but hold one record in 16 of the sample out, and measure the gain on these.

    Args:
        source: as for `dictionary_gain`.
        tier: "fast", "balanced" (default) or "max"; see `loaderx.dataset.DICT_TIERS`.
        level: the zstd level.
        scratch: directory for two small stores. None: where temporary files go.

    Returns:
        The dictionary and its gain. None for the gain where the sample has too few records to hold eight of them out: all of them
        train then.

    Raises:
        As `train_dict` and `dictionary_gain`.
    """
    chosen_tier = tier_named(tier)
    records = stored(source, "measured_dict")
    chosen = sampled(records, chosen_tier["samples"])
    places = np.arange(HOLD_OUT // 2, chosen.size, HOLD_OUT)
    held = measurable(records, chosen[places])
    if held.size < FEWEST:
        return trained_on(beginnings(records, chosen), chosen_tier["size"]), None
    dictionary = trained_on(beginnings(records, np.delete(chosen, places)), chosen_tier["size"])
    return dictionary, measured(records, held, dictionary, level, scratch)


def trained_for(
    store: Path, records: Any, tier: str | None, level: int | None, scratch: Path
) -> tuple[bytes, Gain | None]:
    """As `measured_dict`, for a new store of the records of `store`. ZrecordError if no dictionary can be trained on them."""
    try:
        return measured_dict(records, tier, level=LEVEL if level is None else level, scratch=scratch)
    except (ZrecordError, ValueError) as error:
        raise ZrecordError(
            f"{store}: no dictionary can be trained on its records, choose another codec: {error}"
        ) from error


def told(gains: Mapping[str, Gain | None]) -> list[str]:
    """A line for each dictionary that was trained, by the names of the streams ("" where there is but one store)."""
    unknown = "too few records to hold some out, so what the dictionary gains is not known"
    lines = {name: unknown if gain is None else str(gain) for name, gain in gains.items()}
    return [f"{name}: {line}" if name else line for name, line in lines.items()]


def beginnings(records: Stored, chosen: Indices) -> Iterator[Sample]:
    """What of the chosen records trains."""
    return records.beginnings(chosen) if isinstance(records, Listed) else first_bytes(records, chosen)


def measurable(records: Stored, chosen: Indices) -> Indices:
    """Those that have bytes, and not too many."""
    lengths = records.lengths(chosen)
    return chosen[(lengths > 0) & (lengths <= LONGEST)]


def within_budget(records: Stored, chosen: Indices) -> Indices:
    """Some, spread evenly, that have about MEASURED_BYTES."""
    mean = records.lengths(chosen).mean()
    return chosen[spread(chosen.size, int(MEASURED_BYTES // mean)).astype(np.int64)]


def measured(records: Stored, chosen: Indices, dictionary: bytes, level: int, scratch: PathLike | None = None) -> Gain:
    """The gain on the chosen records, or on some of them if they are many."""
    chosen = within_budget(records, chosen)
    packed, offsets = records.gather_packed(chosen)
    sizes = []
    with tempfile.TemporaryDirectory(prefix="loaderx-gain-", dir=scratch) as directory:
        for codec in ("zstd", "zstd_dict"):
            with Zrecord(Path(directory) / codec, codec, level=level) as store:
                if codec == "zstd_dict":
                    store.install_dict(dictionary)
                store.append(packed, offsets[:-1])
                sizes.append(store.stats()["live_bytes"])
    return Gain(chosen.size, packed.size, sizes[0], sizes[1], len(dictionary), level)


def stored(source: Any, what: str) -> Stored:
    """The records of a source, by their indices."""
    refuse_packed(source, what, "an array, a list of records, a dataset or a Zrecord")
    if isinstance(source, (DenseDataset, RaggedDataset)):
        return source._store
    if isinstance(source, Zrecord) or hasattr(source, "gather_packed"):
        records: Stored = source
        return records
    if is_array(source):
        array = array_of(source, what)
        storable(array.dtype)
        if array.ndim == 0:
            raise ValueError(f"{what}: expected an array of at least one dimension, found shape ()")
        return Listed(array, what)
    if isinstance(source, (list, tuple)):
        return Listed(source, what)
    raise TypeError(
        f"{what}: expected an array, a list of records, a dataset or a Zrecord, found {type(source).__name__}"
    )


class Listed:
    """Records in memory: the rows of an array, or the elements of a list."""

    def __init__(self, records: Sequence[Any] | npt.NDArray[Any], what: str) -> None:
        self._records, self._what = records, what

    def __len__(self) -> int:
        return len(self._records)

    def lengths(self, idxs: Indices) -> npt.NDArray[np.uint32]:
        """The bytes of each record, shape (n,)."""
        if isinstance(self._records, np.ndarray):
            # They are alike, and perhaps on disk.
            return np.full(len(idxs), min(self._records[:1].nbytes, np.iinfo(np.uint32).max), np.uint32)
        return np.array([self._bytes(i).size for i in idxs.tolist()], np.uint32)

    def gather_packed(self, idxs: Indices) -> tuple[Sample, npt.NDArray[np.int64]]:
        """The records one after another, and their byte offsets, shape (n + 1,)."""
        records = [self._bytes(i) for i in idxs.tolist()]
        return np.concatenate([np.empty(0, np.uint8), *records]), offsets_of([record.size for record in records])

    def beginnings(self, idxs: Indices) -> Iterator[Sample]:
        """At most the first SAMPLE_LIMIT bytes of each record. No more of it is copied."""
        return (as_bytes(self._records[i]) for i in idxs.tolist())

    def _bytes(self, index: int) -> Sample:
        array = array_of(self._records[index], self._what)
        storable(array.dtype)
        return contiguous(array).reshape(-1).view(np.uint8)
