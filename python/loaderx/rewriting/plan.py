"""What is to be written, and writing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from loaderx.copying.place import sync_directory, unfinished
from loaderx.copying.snapshot import Snapshot
from loaderx.copying.writing import compare, write
from loaderx.dataset import schema as schemas
from loaderx.dataset.index import Indices
from loaderx.progress import PHASES, Progress, telling
from loaderx.rewriting.encoding import Encoding, Settled, settled
from loaderx.rewriting.origin import Origin
from loaderx.rewriting.picked import Picked, Piece
from loaderx.utils.gain import Gain, told


class Rewritten(NamedTuple):
    """What became of it; `str()` tells of dictionaries that were trained."""

    records: int
    """The number of records, or of those of each stream, in all parts."""
    parts: dict[str, int]
    """The number of records of each part of a split; empty for others."""
    gains: dict[str, Gain | None]
    """Name of the stream ("" where the source is one store) -> what the dictionary that was trained for it gains on records held out of
    the training; None where there were too few records to hold any out."""

    def __str__(self) -> str:
        """In a line, and one more for each dictionary."""
        parts = "".join(f", {name}: {count:,}" for name, count in self.parts.items())
        return "\n".join([f"{self.records:,} records{parts}", *told(self.gains)])


class Stream(NamedTuple):
    """A stream of the new store or stores."""

    like: Snapshot
    """What the stream has its codec and its schema from."""
    records: Picked
    """What trains a dictionary, where one is trained."""
    parts: Mapping[str, Picked]
    """Name of a part -> its records; one part "" where there is but one new store."""
    metadata: Mapping[str, object] | None = None
    """The user's own keys of the schema; None: those of `like`."""

    def schema(self, codec: str) -> bytes | None:
        """The schema of each part."""
        old = self.like.schema
        if old is None:
            return None
        metadata = old.metadata if self.metadata is None else self.metadata
        return schemas.encode(replace(old, codec=codec, shapes=None, metadata=metadata))


def one_store(origin: Origin, index: Indices | None = None) -> dict[str, Stream]:
    """The streams of one new store that has the records at `index` of all streams, or all records."""
    streams = {}
    for name, records in origin.streams.items():
        picked = Picked([Piece(records, index)])
        streams[name] = Stream(records, picked, {"": picked})
    return streams


class Plan(NamedTuple):
    """Names of streams (or "" for a store) with what becomes of them, from the directories `sources`."""

    streams: Mapping[str, Stream]
    sources: Sequence[Path]
    asked: Encoding
    verify: bool
    progress: Progress | bool | None

    def carry_out(self, path: Path) -> dict[str, Gain | None]:
        """Write everything, and compare it; the gains of the dictionaries that were trained."""
        if self.asked.dict_bytes is not None and len(self.streams) > 1:
            raise ValueError(
                f"dict_bytes: a dictionary belongs to one stream, and here are the streams {list(self.streams)}"
            )
        phases = PHASES[: 1 + self.verify]
        with telling(self.progress, phases) as tell, unfinished(path, *self.sources) as directory:
            counter = Counter(len(phases) * sum(len(records) for *_, records in self._each()), tell)
            counter(0)
            chosen = {
                name: settled(self.asked, stream.like, stream.records, directory)
                for name, stream in self.streams.items()
            }
            self._write(directory / "new", chosen, counter)
            return {name: how.gain for name, how in chosen.items() if how.trained}

    def _each(self) -> list[tuple[str, str, Picked]]:
        """The stores to be written: stream, part, records."""
        return [
            (name, part, records) for name, stream in self.streams.items() for part, records in stream.parts.items()
        ]

    def _write(self, new: Path, chosen: Mapping[str, Settled], counter: Counter) -> None:
        """All stores, and after that the comparison of all."""
        for name, part, records in self._each():
            like, (codec, level, dictionary, *_) = self.streams[name].like, chosen[name]
            schema = self.streams[name].schema(codec)
            target = new / part / name
            write(records, target, codec, schema, counter, level=level, dictionary=dictionary, uniform=like.dense)
            counter.add(len(records))
        if self.verify:
            for name, part, records in self._each():
                compare(records, new / part / name, counter)
                counter.add(len(records))
        for part in {part for _, part, _ in self._each()}:
            sync_directory(new / part)


class Counter:
    """How many records are done of all stores, told as of each in turn."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._before, self._total, self._progress = 0, total, progress

    def __call__(self, done: int) -> None:
        """So many of the current store are done."""
        if self._progress:
            self._progress(self._before + done, self._total)

    def add(self, count: int) -> None:
        """The current store is done."""
        self._before += count
