"""Comma-separated values. All rows are read first, to know what each column holds and where rows begin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from loaderx.converters.finding import with_suffix
from loaderx.converters.formats.splits import one_split
from loaderx.converters.naming import stream_names
from loaderx.converters.source import TEXT, Block, Format, Part, StreamSpec, Values
from loaderx.converters.text.rows import (
    Dialect,
    Range,
    Walk,
    checked_encoding,
    csv_errors,
    equally_wide,
    guessed_delimiter,
    opened,
    read,
)
from loaderx.converters.text.types import Guess, packed_text, values_of
from loaderx.dataset.dtypes import storable

VALID = ".valid"
NULLS = ("refuse", "mask", "nan")


class CsvFiles:
    """Files with the same columns, one after another."""

    def __init__(
        self,
        files: Sequence[Path],
        *,
        delimiter: str | None = None,
        header: bool = True,
        encoding: str = "utf-8",
        dtypes: Mapping[str, Any] | None = None,
        missing: Sequence[str] = ("",),
        nulls: str = "refuse",
    ) -> None:
        if nulls not in NULLS:
            raise ValueError(f"nulls: expected one of {', '.join(NULLS)}, found {nulls!r}")
        if isinstance(missing, str):
            raise TypeError(f"missing: expected a list of texts, found {missing!r}")
        self.files, self._nulls, self._missing = files, nulls, frozenset(missing)
        known = checked_encoding(encoding)
        self._dialect = Dialect(delimiter or guessed_delimiter(files[0], known), known, header)
        self._ranges: list[tuple[Path, list[Range]]] = []
        self._names: list[str] = []
        self._guesses: list[Guess] = []
        self._lacking: dict[str, int] = {}
        for file in files:
            self._ranges.append((file, list(self._walked(file))))
        self._dtypes = self._decided(dtypes or {})
        self.streams = list(self._specs())

    def _walked(self, file: Path) -> Iterator[Range]:
        """Look at all rows of a file."""
        walk = Walk(file, self._dialect)
        first = self.records
        for place, rows in walk.blocks():
            self._begin(file, walk.header, rows)
            equally_wide(rows, len(self._names), file, first)
            for at, texts in enumerate(zip(*rows, strict=True)):
                some = set(texts)
                if some & self._missing and self._names[at] not in self._lacking:
                    gaps = (number for number, text in enumerate(texts) if text in self._missing)
                    self._lacking[self._names[at]] = first + next(gaps)
                self._guesses[at].see(some - self._missing)
            first += len(rows)
            yield place
        self._begin(file, walk.header, [])

    def _begin(self, file: Path, header: list[str] | None, rows: list[list[str]]) -> None:
        """The columns, from the header or the first row; those of a later file must be the same."""
        names = header if self._dialect.header else [f"column{at}" for at in range(len(rows[0]))] if rows else None
        if names is None:
            return
        if not self._names:
            self._names = list(stream_names([(name,) for name in names], f"{file}: column").values())
            self._columns = names
            self._guesses = [Guess() for _ in names]
            if len(set(names)) != len(names):
                raise ValueError(f"{file}: there are several columns of one name: {names}")
        elif self._dialect.header and names != self._columns:
            raise ValueError(f"{file}: expected the columns of {self.files[0]}, {self._columns}, found {names}")

    def _decided(self, given: Mapping[str, Any]) -> dict[str, np.dtype[Any] | None]:
        """The dtype of each column; None for text."""
        unknown = [name for name in given if name not in self._names]
        if unknown:
            raise ValueError(f"dtypes: expected some of the columns {self._names}, found {unknown}")
        if not self._names:
            raise ValueError(f"{self.files[0]}: there are no columns")
        found = {name: guess.dtype for name, guess in zip(self._names, self._guesses, strict=True)}
        return found | {name: None if dtype in ("text", str) else storable(dtype) for name, dtype in given.items()}

    def _specs(self) -> Iterator[StreamSpec]:
        for name, dtype in self._dtypes.items():
            origin = f"column {name!r}"
            if dtype is None:
                yield StreamSpec(name, "ragged", np.dtype(np.uint8), None, f"{origin}: text", TEXT)
                continue
            yield StreamSpec(name, "dense", dtype, (), origin)
            if name in self._lacking and self._nulls == "mask":
                if name + VALID in self._names:
                    raise ValueError(f"nulls: the mask of column {name!r} would be {name + VALID!r}, which is a column")
                yield StreamSpec(name + VALID, "dense", np.dtype(bool), (), f"where column {name!r} has a value")
            elif name in self._lacking and not (self._nulls == "nan" and dtype.kind in "fmM"):
                raise ValueError(
                    f"{self.files[0]}: column {name!r}, record {self._lacking[name]}: there is no value; give nulls='mask' to add a "
                    f"stream {name + VALID!r}" + (", or nulls='nan'" if dtype.kind in "fmM" else "")
                )

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(place.rows for _, ranges in self._ranges for place in ranges)

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """Blocks of rows; what is compressed is inflated here."""
        before = 0
        for file, ranges in self._ranges:
            rows = sum(place.rows for place in ranges)
            if start < before + rows:
                with closing(opened(file)) as stream, csv_errors(file):
                    for place in ranges:
                        if start < before + place.rows:
                            stream.seek(place.start)
                            content = stream.read(place.stop - place.start)
                            yield partial(self._block, content, file, place, max(0, start - before), before, names)
                        before += place.rows
            else:
                before += rows

    def _block(
        self, content: bytes, file: Path, place: Range, skipped: int, before: int, names: Sequence[str]
    ) -> Block:
        rows = read(content, self._dialect, file)
        if len(rows) != place.rows:
            raise ValueError(f"{file}: from line {place.line} on: expected {place.rows} rows, found {len(rows)}")
        equally_wide(rows, len(self._names), file, before)
        columns = list(zip(*rows[skipped:], strict=True)) if rows[skipped:] else [()] * len(self._names)
        texts = dict(zip(self._names, columns, strict=True))
        return {name: self._values(texts, name, file, before + skipped) for name in names}

    def _values(self, columns: Mapping[str, Sequence[str]], name: str, file: Path, first: int) -> Values:
        if name not in columns:
            texts = columns[name.removesuffix(VALID)]
            return np.array([text not in self._missing for text in texts], bool)
        texts, dtype = columns[name], self._dtypes[name]
        if dtype is None:
            return packed_text(texts)
        where = f"{file}: column {name!r}"
        if name not in self._lacking:
            return values_of(texts, dtype, where, first)
        present = np.array([text not in self._missing for text in texts], bool)
        values = np.zeros(len(texts), dtype)
        if self._nulls == "nan":
            values[...] = np.nan if dtype.kind == "f" else np.array("NaT", dtype)
        there = [text for text in texts if text not in self._missing]
        values[present] = values_of(there, dtype, where, first)
        return values

    def close(self) -> None:
        """Nothing is kept open."""


FORMAT = Format(
    "csv", "CSV", lambda path: one_split(path, with_suffix(path, [".csv", ".tsv", ".csv.gz", ".tsv.gz"])), CsvFiles
)
