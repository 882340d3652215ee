"""ArrayRecord files: records of bytes, or the features of the `tf.train.Example` that they are."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from loaderx.converters.finding import files_below, natural
from loaderx.converters.formats.examples import (
    Feature,
    Raw,
    Survey,
    check_options,
    found_examples,
    streams_of,
)
from loaderx.converters.formats.few_open import FewOpen
from loaderx.converters.formats.pieces import Nulls, joined
from loaderx.converters.formats.splits import one_split
from loaderx.converters.source import ITSELF, PART_BYTES, Block, Format, Part

NAME = re.compile(r"\.(array_?record|arecord)(-[0-9]+-of-[0-9]+)?$", re.IGNORECASE)
GROWTH = 4
"""How many times what is on the disk records may be, for how many are read at once."""


class ArrayRecords:
    """The records of files, one file after another. A file is read one part at a time."""

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
        self._opened = FewOpen(Reader, Reader.close)
        try:
            self._records = [Records(self._opened, file) for file in files]
            self._examples = found_examples(examples, features, nulls, self._first, self._survey)
        except BaseException:
            self.close()
            raise
        self.streams = streams_of(self._examples)

    def _first(self) -> Iterator[Raw]:
        """The first records of each file."""
        for records in self._records:
            for start, stop in islice(records.ranges(0), 1):
                yield records.raw(start, stop)

    def _survey(self) -> Survey:
        """Read all records once."""
        survey = Survey(str(self.files[0]))
        for records in self._records:
            for start, stop in records.ranges(0):
                survey.add(records.raw(start, stop))
        return survey

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(map(len, self._records))

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """Neighbouring records of one file."""
        wanted = [] if self._examples is None else self._examples.wanted(names)
        for records in self._records:
            for first, stop in records.ranges(start):
                yield partial(self._block, records, first, stop, names, wanted)
            start = max(0, start - len(records))

    def _block(self, records: Records, first: int, stop: int, names: Sequence[str], wanted: Sequence[Feature]) -> Block:
        if self._examples is None:
            return {ITSELF: joined(records.read(first, stop))}
        return self._examples.read(records.raw(first, stop), names, wanted)

    def close(self) -> None:
        """Close the files."""
        self._opened.close()


class Reader:
    """A file while it is open, with threads of its own; for one caller at a time."""

    def __init__(self, file: Path) -> None:
        from array_record.python.array_record_module import ArrayRecordReader

        self.file = file
        self._turn = threading.Lock()
        try:
            self._reader: Any = ArrayRecordReader(str(file))
            self.count = int(self._reader.num_records())
            if not self._reader.ok():
                # A damaged file has no records, and the reader says why only when it is closed.
                self._reader.close()
                raise ValueError("it can't be read")
        except Exception as error:  # it raises of several classes
            raise ValueError(f"{file}: expected an ArrayRecord file: {error}") from error

    def read(self, start: int, stop: int) -> list[bytes]:
        """Some records. ValueError for a damaged file."""
        try:
            with self._turn:
                records: list[bytes] = self._reader.read(start, stop)
        except Exception as error:  # it raises of several classes
            raise ValueError(f"{self.file}: records {start} to {stop - 1} can't be read: {error}") from error
        if len(records) != stop - start:
            raise ValueError(f"{self.file}: expected {stop - start} records from {start} on, found {len(records)}")
        return records

    def close(self) -> None:
        """Close the file. What a damaged one raises here, reading it has raised before."""
        with suppress(Exception):
            self._reader.close()


class Records:
    """The records of a file, by number."""

    def __init__(self, opened: FewOpen[Reader], file: Path) -> None:
        self.file, self._opened = file, opened
        with opened.reading(file) as reader:
            self._count = reader.count
        each = GROWTH * file.stat().st_size // max(1, self._count)
        self._step = max(1, min(PART_BYTES // max(1, each), 1 << 16))

    def __len__(self) -> int:
        return self._count

    def ranges(self, start: int) -> Iterator[tuple[int, int]]:
        """Parts of the records from `start` on."""
        for first in range(start, self._count, self._step):
            yield first, min(first + self._step, self._count)

    def read(self, start: int, stop: int) -> list[bytes]:
        """Some records. ValueError for a damaged file."""
        with self._opened.reading(self.file) as reader:
            return reader.read(start, stop)

    def raw(self, start: int, stop: int) -> Raw:
        """Some records in one buffer."""
        packed = joined(self.read(start, stop))
        starts = packed.offsets.astype(np.uint64)
        return Raw(packed.values, starts[:-1], np.diff(starts), start, str(self.file))


def finds(path: Path) -> Sequence[Path]:
    """Files by name."""
    if path.is_file():
        return [path] if NAME.search(path.name) else []
    return one_split(path, sorted((file for file in files_below(path) if NAME.search(file.name)), key=natural))


FORMAT = Format("array_record", "ArrayRecord", finds, ArrayRecords, needs="array_record")
