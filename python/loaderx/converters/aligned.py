"""Files that hold several arrays of equally many records: HDF5, Zarr and `.npz`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from loaderx.converters.naming import stream_names
from loaderx.converters.source import ITSELF, PART_BYTES, Block, Part, StreamSpec, Values
from loaderx.dataset.dtypes import described

ALIGNED = 8
"""Parts may be so many times larger than usual where that keeps a chunk from being read twice."""

Read = Callable[[int, int], Values]
"""The records from one number up to another."""


class Column(Protocol):
    """An array with an axis of records."""

    @property
    def spec(self) -> StreamSpec:
        """The stream, whose name is the array's path, with slashes."""

    @property
    def rows(self) -> int:
        """How many records."""

    @property
    def chunk(self) -> int:
        """How many neighbouring records are read together; 1 where any range can be read."""

    @property
    def row_bytes(self) -> int:
        """How many bytes a record has, or about."""

    @property
    def sequential(self) -> bool:
        """Whether a reader gives ranges only in their order, one after another."""

    def reader(self, start: int) -> Read:
        """Reads ranges from `start` on."""


class AlignedSource:
    """The arrays of one file after those of another."""

    def __init__(
        self,
        files: Sequence[Path],
        tables: Sequence[Sequence[Column]],
        refused: Mapping[str, str],
        only: Sequence[str] | None,
        close: Callable[[], None],
    ) -> None:
        self.files, self._close = files, close
        where = [str(file) for file in files] or ["it"]
        # One source in memory, or of many files that are one, has one table.
        self._tables = [
            named(columns, only, where[min(at, len(where) - 1)], refused) for at, columns in enumerate(tables)
        ]
        self._rows = [equal_rows(table, where[min(at, len(where) - 1)]) for at, table in enumerate(self._tables)]
        first = self._tables[0]
        for at, table in enumerate(self._tables[1:], 1):
            must_be_alike(first, table, where[0], where[at])
        self.streams = [replace(column.spec, name=name) for name, column in first.items()]
        self.refused = {} if only is not None else {name.replace("/", "."): why for name, why in refused.items()}

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(self._rows)

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """Ranges of one file after another, cut where chunks end."""
        for rows, table in zip(self._rows, self._tables, strict=True):
            if start < rows:
                yield from ranges({name: table[name] for name in names}, start, rows)
            start = max(0, start - rows)

    def close(self) -> None:
        """Let go of the files."""
        self._close()


def named(
    columns: Sequence[Column], only: Sequence[str] | None, where: str, refused: Mapping[str, str]
) -> dict[str, Column]:
    """The columns by the names of their streams; `only` those of these paths."""
    if isinstance(only, str):
        raise TypeError(f"only: expected a list of names, found {only!r}")
    paths = {column.spec.name: column for column in columns}
    wanted = list(paths) if only is None else [name.strip("/") for name in only]
    for name in wanted:
        if name in refused:
            raise ValueError(refused[name])
        if name not in paths:
            raise ValueError(f"{where}: only: expected some of {list(paths)}, found {name!r}")
    if not wanted:
        reasons = "; ".join(refused.values())
        raise ValueError(f"{where}: no array with records is here{': ' if reasons else ''}{reasons}")
    if wanted == [ITSELF]:
        return {ITSELF: paths[ITSELF]}
    names = stream_names([tuple(path.split("/")) for path in wanted], f"{where}: array")
    return {names[tuple(path.split("/"))]: paths[path] for path in wanted}


def equal_rows(table: Mapping[str, Column], where: str) -> int:
    """The number of records that all have. ValueError if it isn't one."""
    rows = {column.spec.name: column.rows for column in table.values()}
    if len(set(rows.values())) != 1:
        raise ValueError(
            f"{where}: expected arrays of one length, found {rows}; give only=[...] the names of those that belong together"
        )
    return next(iter(rows.values()))


def must_be_alike(first: Mapping[str, Column], other: Mapping[str, Column], where: str, here: str) -> None:
    """ValueError where two files don't have the same streams."""
    if sorted(first) != sorted(other):
        raise ValueError(f"{here}: expected the arrays of {where}, {sorted(first)}, found {sorted(other)}")
    for name, column in first.items():
        one, two = column.spec, other[name].spec
        if (one.kind, one.dtype, one.item_shape) != (two.kind, two.dtype, two.item_shape):
            raise ValueError(
                f"{here}: array {two.name!r}: expected {one.kind} {one.item_shape} {described(one.dtype)} as in {where}, "
                f"found {two.kind} {two.item_shape} {described(two.dtype)}"
            )


def ranges(table: Mapping[str, Column], start: int, rows: int) -> Iterator[Part]:
    """The records from `start` on; what can only be read in order is read here."""
    step, aligned = step_of(table)
    readers = {name: column.reader(start) for name, column in table.items()}
    while start < rows:
        stop = min(rows, (start // aligned) * aligned + step)
        if stop <= start:
            stop = min(rows, start + step)
        ready = {name: readers[name](start, stop) for name, column in table.items() if column.sequential}
        later = {name: read for name, read in readers.items() if name not in ready}
        yield partial(block, ready, later, start, stop)
        start = stop


def step_of(table: Mapping[str, Column]) -> tuple[int, int]:
    """How many records make a part, and of what number its end is a multiple."""
    size = max(1, sum(column.row_bytes for column in table.values()))
    step = max(1, PART_BYTES // size)
    chunk = max(column.chunk for column in table.values())
    if chunk <= step:
        return step - step % chunk, chunk
    if chunk * size <= ALIGNED * PART_BYTES:
        return chunk, chunk
    return step, 1


def block(ready: Block, later: Mapping[str, Read], start: int, stop: int) -> Block:
    """One part."""
    return ready | {name: read(start, stop) for name, read in later.items()}
