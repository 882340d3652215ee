"""Apache Parquet: columns as streams, row group by row group."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from loaderx.converters.arrow.tables import Read, TableSource, arrow_errors, same_schema
from loaderx.converters.finding import with_suffix
from loaderx.converters.formats.splits import one_split
from loaderx.converters.source import PART_BYTES, Format

WHOLE = 4
"""Row groups of up to so many parts are read by one thread each, several at once; larger ones batch after batch."""
BATCH_ROWS = 1 << 16
PIECE = 1 << 20
"""Bytes that are read at once of each column of a row group that is large."""


class RowGroup:
    """One row group of a file."""

    def __init__(self, files: Opened, file: Path, number: int, metadata: Any) -> None:
        group = metadata.row_group(number)
        self.rows, self.where = group.num_rows, f"{file}: row group {number}: "
        self._files, self._file, self._number = files, file, number
        columns = (group.column(at) for at in range(group.num_columns))
        # A name may have dots too, and those of the fields in a column follow its own after one.
        self._sizes = [(f"{one.path_in_schema}.", one.total_uncompressed_size) for one in columns]

    def reads(self, start: int, columns: Sequence[str]) -> Iterator[tuple[int, Read]]:
        """The row group at once, or in batches."""
        size = sum(size for path, size in self._sizes if path.startswith(tuple(f"{name}." for name in columns)))
        if size <= WHOLE * PART_BYTES:
            yield start, partial(self._read, start, columns)
            return
        rows = min(BATCH_ROWS, max(1, self.rows * PART_BYTES // size))
        first = 0
        with opened(self._file, PIECE) as file:
            for batch in file.iter_batches(rows, [self._number], list(columns)):
                if first + batch.num_rows > start:
                    skipped = max(0, start - first)
                    yield first + skipped, partial(batch.slice, skipped)
                first += batch.num_rows

    def _read(self, start: int, columns: Sequence[str]) -> Any:
        table = self._files.of(self._file).read_row_group(self._number, list(columns), use_threads=False)
        if table.num_rows != self.rows:
            raise ValueError(f"{self.where}expected {self.rows} rows, found {table.num_rows}")
        return table.slice(start)


class Opened(threading.local):
    """The file that a thread reads from: two threads may not read through the same reader."""

    path: Path | None = None
    file: Any = None

    def of(self, path: Path) -> Any:
        """A reader of the file."""
        if self.path != path:
            self.file, self.path = opened(path), path
        return self.file


def opened(path: Path, buffer: int = 0) -> Any:
    """A reader, which checks the checksums of pages where there are some.

    With a `buffer` of so many bytes a column is read in pieces of that size, else the columns of a row group as a whole.
    """
    import pyarrow.parquet as pq

    with arrow_errors(f"{path}: "):
        return pq.ParquetFile(
            path, memory_map=False, buffer_size=buffer, pre_buffer=not buffer, page_checksum_verification=True
        )


def source(files: Sequence[Path], *, nulls: str | Sequence[str] = "refuse", utc: bool = False) -> TableSource:
    """The row groups of all files."""
    schemas: dict[str, Any] = {}
    pieces: list[RowGroup] = []
    threads = Opened()
    for path in files:
        with opened(path) as file, arrow_errors(f"{path}: "):
            schemas[str(path)] = file.schema_arrow
            pieces += [RowGroup(threads, path, number, file.metadata) for number in range(file.num_row_groups)]
    return TableSource(files, same_schema(schemas), pieces, nulls, utc)


def finds(path: Path) -> list[Path]:
    """Files by their names.

    ValueError for a directory whose directories hold a column: the files lie in `year=2020/`, say, and don't have it. Also for one of
    several splits.
    """
    files = with_suffix(path, [".parquet", ".parq", ".pq"])
    for file in files:
        inner = [name for name in file.relative_to(path).parts[:-1] if "=" in name]
        if inner:
            raise ValueError(
                f"{file}: the name of the directory {inner[0]!r} has values of a column that the files don't have; "
                "convert pyarrow.dataset.dataset(path, partitioning='hive'), which has it, or list the files to leave it out"
            )
    return one_split(path, files)


FORMAT = Format("parquet", "Apache Parquet", finds, source, "pyarrow")
