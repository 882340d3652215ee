"""ArrayRecord files: records of bytes, or the features of the `tf.train.Example` that they are."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from loaderx._core import scan_examples
from loaderx.converters.finding import files_below, natural
from loaderx.converters.formats.examples import (
    Examples,
    Feature,
    Raw,
    Survey,
    check_options,
    given_features,
    streams_of,
)
from loaderx.converters.formats.pieces import Nulls, joined
from loaderx.converters.source import ITSELF, PART_BYTES, Block, Format, Part

NAME = re.compile(r"\.(array_?record|arecord)(-[0-9]+-of-[0-9]+)?$", re.IGNORECASE)
GROWTH = 4
"""How many times what is on the disk records may be, for how many are read at once."""


class ArrayRecords:
    """The records of files, one file after another. A file's reader has threads of its own, and reads one part at a time."""

    def __init__(
        self,
        files: Sequence[Path],
        *,
        examples: bool | None = None,
        features: Mapping[str, Any] | None = None,
        nulls: Nulls = "refuse",
    ) -> None:
        check_options(examples, features, nulls)
        self.files = files
        self._readers = []
        for file in files:
            self._readers.append(Reader(file))
        self._examples: Examples | None = None
        if features is not None:
            self._examples = Examples(given_features(features), nulls, surveyed=False)
        elif examples or (examples is None and self._holds_examples()):
            self._examples = Examples(self._survey(), nulls, surveyed=True)
        self.streams = streams_of(self._examples)

    def _holds_examples(self) -> bool:
        """Whether the first record is an Example with features."""
        reader = next((reader for reader in self._readers if len(reader)), None)
        if reader is None:
            return False
        first = reader.read(0, 1)
        try:
            return bool(scan_examples(first.buffer, first.starts, first.lengths, 0))
        except ValueError as error:
            if "SequenceExample" in str(error):
                raise ValueError(f"{first.place}: {error}; examples=False takes records as they are") from error
            return False

    def _survey(self) -> list[Feature]:
        """Read all records once."""
        survey = Survey()
        for reader in self._readers:
            for start, stop in reader.ranges(0):
                try:
                    survey.add(reader.read(start, stop))
                except ValueError as error:
                    raise ValueError(f"{reader.file}: {error}; examples=False takes records as they are") from error
        features = survey.features()
        if not features:
            raise ValueError(f"{self.files[0]}: its records have no features; examples=False takes them as they are")
        return features

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(map(len, self._readers))

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """Neighbouring records of one file."""
        wanted = [] if self._examples is None else self._examples.wanted(names)
        for reader in self._readers:
            for first, stop in reader.ranges(start):
                yield partial(self._block, reader, first, stop, names, wanted)
            start = max(0, start - len(reader))

    def _block(self, reader: Reader, first: int, stop: int, names: Sequence[str], wanted: Sequence[Feature]) -> Block:
        if self._examples is None:
            return {ITSELF: joined(reader.records(first, stop))}
        return self._examples.read(reader.read(first, stop), names, wanted)

    def close(self) -> None:
        """Close the files."""
        for reader in self._readers:
            reader.close()


class Reader:
    """The records of a file, by number."""

    def __init__(self, file: Path) -> None:
        from array_record.python.array_record_module import ArrayRecordReader

        self.file = file
        self._turn = threading.Lock()
        try:
            self._reader: Any = ArrayRecordReader(str(file))
            self._count = int(self._reader.num_records())
            if not self._reader.ok():
                # A damaged file has no records, and the reader says why only when it is closed.
                self._reader.close()
                raise ValueError("it can't be read")
        except Exception as error:  # it raises of several classes
            raise ValueError(f"{file}: expected an ArrayRecord file: {error}") from error
        each = GROWTH * file.stat().st_size // max(1, self._count)
        self._step = max(1, min(PART_BYTES // max(1, each), 1 << 16))

    def __len__(self) -> int:
        return self._count

    def ranges(self, start: int) -> Iterator[tuple[int, int]]:
        """Parts of the records from `start` on."""
        for first in range(start, self._count, self._step):
            yield first, min(first + self._step, self._count)

    def records(self, start: int, stop: int) -> list[bytes]:
        """Some records. ValueError for a damaged file."""
        try:
            with self._turn:
                records: list[bytes] = self._reader.read(start, stop)
        except Exception as error:  # it raises of several classes
            raise ValueError(f"{self.file}: records {start} to {stop - 1} can't be read: {error}") from error
        if len(records) != stop - start:
            raise ValueError(f"{self.file}: expected {stop - start} records from {start} on, found {len(records)}")
        return records

    def read(self, start: int, stop: int) -> Raw:
        """Some records in one buffer."""
        packed = joined(self.records(start, stop))
        starts = packed.offsets.astype(np.uint64)
        return Raw(packed.values, starts[:-1], np.diff(starts), start, str(self.file))

    def close(self) -> None:
        """Close the file. What a damaged one raises here, reading it has raised before."""
        with self._turn, suppress(Exception):
            self._reader.close()


def finds(path: Path) -> Sequence[Path]:
    """Files by name."""
    if path.is_file():
        return [path] if NAME.search(path.name) else []
    return sorted((file for file in files_below(path) if NAME.search(file.name)), key=natural)


FORMAT = Format("array_record", "ArrayRecord", finds, ArrayRecords, needs="array_record")
