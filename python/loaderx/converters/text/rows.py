"""Rows of a CSV file, and where in it they lie."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, cast

SAMPLE = 1 << 16
DELIMITERS = ",;\t|"
ROWS = 4096
"""Rows of a block, at most."""
BLOCK_BYTES = 4 << 20

Row = list[str]


class Dialect(NamedTuple):
    """How rows are written."""

    delimiter: str
    encoding: str
    header: bool


class Range(NamedTuple):
    """Neighbouring rows."""

    start: int
    """The byte at which the first begins."""
    stop: int
    rows: int
    line: int
    """The number of its first line."""


@contextmanager
def csv_errors(file: Path) -> Iterator[None]:
    """What reading raises, as a ValueError that says where."""
    try:
        yield
    except (csv.Error, UnicodeError, zlib.error, EOFError, gzip.BadGzipFile) as error:
        if str(error).startswith(str(file)):
            raise
        raise ValueError(f"{file}: it can't be read: {error}") from error


def opened(file: Path) -> IO[bytes]:
    """The bytes of a file, inflated if its name ends with .gz."""
    packed = file.name.lower().endswith(".gz")
    return cast("IO[bytes]", gzip.GzipFile(file)) if packed else file.open("rb")


def checked_encoding(encoding: str) -> str:
    """An encoding in which a line ends as in ASCII. ValueError for any other."""
    try:
        fits = '\n,"'.encode(encoding) == b'\n,"'
    except (LookupError, UnicodeError):
        fits = False
    if not fits:
        raise ValueError(f"encoding: expected one that has ASCII in it, such as utf-8 or latin-1, found {encoding!r}")
    return codecs.lookup(encoding).name


def guessed_delimiter(file: Path, encoding: str) -> str:
    """The character by which most of the first rows have equally many fields, of which there are several; else a comma."""
    with opened(file) as stream, csv_errors(file):
        start = stream.read(SAMPLE)
    lines = start.decode(encoding, "replace").splitlines(keepends=True)
    lines = lines[:-1] if len(start) == SAMPLE and len(lines) > 1 else lines
    best, fits = ",", 0
    for delimiter in DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            continue
        common = max(set(widths), key=widths.count, default=1)
        if common > 1 and widths.count(common) > fits:
            best, fits = delimiter, widths.count(common)
    return best


def parsed(lines: Iterator[bytes], dialect: Dialect) -> Iterator[Row]:
    """The rows of some lines."""
    return csv.reader((line.decode(dialect.encoding) for line in lines), delimiter=dialect.delimiter, strict=True)


class Walk:
    """All rows of a file, in blocks. `header` is set by the first step."""

    def __init__(self, file: Path, dialect: Dialect) -> None:
        self.header: Row | None = None
        self._file, self._dialect = file, dialect
        self._at, self._line = 0, 0

    def blocks(self) -> Iterator[tuple[Range, list[Row]]]:
        """Each block's place, and its rows."""
        with opened(self._file) as stream, csv_errors(self._file):
            reader = parsed(self._counted(stream), self._dialect)
            if self._dialect.header:
                self.header = next(reader, None)
            while True:
                start, line = self._at, self._line + 1
                rows: list[Row] = []
                while len(rows) < ROWS and self._at - start < BLOCK_BYTES:
                    row = next(reader, None)
                    if row is None:
                        break
                    # An empty line is no row.
                    if row:
                        rows.append(row)
                if self._at == start:
                    return
                yield Range(start, self._at, len(rows), line), rows

    def _counted(self, stream: IO[bytes]) -> Iterator[bytes]:
        for line in stream:
            text = line[len(codecs.BOM_UTF8) :] if self._at == 0 and line.startswith(codecs.BOM_UTF8) else line
            self._at += len(line)
            self._line += 1
            yield text


def read(content: bytes, dialect: Dialect, file: Path) -> list[Row]:
    """The rows of a range."""
    start = len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0
    with csv_errors(file):
        return [row for row in parsed(iter(io.BytesIO(content[start:])), dialect) if row]


def equally_wide(rows: Sequence[Row], width: int, file: Path, first: int) -> None:
    """ValueError for a row of another width."""
    for at, row in enumerate(rows):
        if len(row) != width:
            raise ValueError(f"{file}: record {first + at}: expected {width} fields, found {len(row)}")
