"""A source of Arrow tables, whatever they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from loaderx.converters.arrow.columns import columns_of
from loaderx.converters.identity import Identity, unknown
from loaderx.converters.source import PART_BYTES, Block, Part

Read = Callable[[], Any]
"""Reads a `pyarrow.Table` or `RecordBatch`."""


class Piece(Protocol):
    """Rows that lie together, such as a row group."""

    @property
    def rows(self) -> int | None:
        """How many. None where only reading tells; then it is the only piece."""

    @property
    def where(self) -> str:
        """Its place for messages, with a colon and a space; empty in memory."""

    def reads(self, start: int, columns: Sequence[str]) -> Iterator[tuple[int, Read]]:
        """The rows from `start` on, of the columns that are wanted, and perhaps more; each with its first row's number in the piece."""


class TableSource:
    """Pieces of one schema, one after another."""

    def __init__(
        self,
        files: Sequence[Path],
        schema: Any,
        pieces: Sequence[Piece],
        nulls: str | Sequence[str],
        utc: bool,
        identity: Identity = unknown,
    ) -> None:
        self.files, self.identity = files, identity
        self._pieces = pieces
        where = f"{files[0]}: " if files else ""
        with arrow_errors(where):
            self._columns, refused = columns_of(schema, nulls, utc)
        self.refused = {name: where + why for name, why in refused.items()}
        self.streams = [column.spec for column in self._columns.values()]

    @property
    def records(self) -> int | None:
        """The number of records; None where a piece doesn't know its own."""
        known = [piece.rows for piece in self._pieces if piece.rows is not None]
        return sum(known) if len(known) == len(self._pieces) else None

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """Piece after piece."""
        wanted = list(dict.fromkeys(self._columns[name].path[0] for name in names))
        before = 0
        for piece in self._pieces:
            if piece.rows is None or start < before + piece.rows:
                with arrow_errors(piece.where):
                    for first, read in piece.reads(max(0, start - before), wanted):
                        yield partial(self._block, read, names, before + first, piece.where)
            before += piece.rows or 0  # one that doesn't know is the only one

    def _block(self, read: Read, names: Sequence[str], first: int, where: str) -> Block:
        with arrow_errors(where):
            table = read()
            return {name: self._read(table, name, first, where) for name in names}

    def _read(self, table: Any, name: str, first: int, where: str) -> Any:
        column = self._columns[name]
        return column.read(table.column(column.path[0]), first, where)

    def close(self) -> None:
        """Files are open only while they are read."""
        self._pieces = []


@contextmanager
def arrow_errors(where: str) -> Iterator[None]:
    """What Arrow raises, as errors that say where."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, UnicodeError, OverflowError) as error:
        raise ValueError(f"{where}it can't be read: {error}") from error
    except OSError as error:
        if error.filename is not None or str(error).startswith(where):
            raise
        raise OSError(f"{where}it can't be read: {error}") from error


def same_schema(schemas: Mapping[str, Any]) -> Any:
    """The schema that all of them are. ValueError for one that isn't like the first."""
    names = list(schemas)
    first = schemas[names[0]]
    for name in names[1:]:
        other = schemas[name]
        if sorted(other.names) != sorted(first.names):
            raise ValueError(f"{name}: expected the columns of {names[0]}, {first.names}, found {other.names}")
        for field in first:
            found = other.field(field.name).type
            if not found.equals(field.type):
                raise ValueError(
                    f"{name}: column {field.name!r}: expected {field.type} as in {names[0]}, found {found}"
                )
    return first


def slices(table: Any, first: int, start: int = 0) -> Iterator[tuple[int, Read]]:
    """A table from row `start` on in slices of about PART_BYTES; its row 0 is row `first` of its piece."""
    rows = table.num_rows
    step = max(1, rows * PART_BYTES // max(1, table.nbytes))
    for at in range(start, rows, step):
        yield first + at, partial(table.slice, at, step)


class InMemory:
    """A table, whole."""

    where = ""

    def __init__(self, table: Any) -> None:
        self.rows = table.num_rows
        self._table = table

    def reads(self, start: int, columns: Sequence[str]) -> Iterator[tuple[int, Read]]:
        """Slices; nothing is copied."""
        return slices(self._table.select(list(columns)), 0, start)


class Sequential:
    """Batches that come one after another."""

    where = ""

    def __init__(self, batches: Callable[[Sequence[str]], Iterator[Any]], rows: int | None = None) -> None:
        self.rows = rows
        self._batches = batches

    def reads(self, start: int, columns: Sequence[str]) -> Iterator[tuple[int, Read]]:
        """What is before `start` is read too, and left out."""
        first = 0
        for batch in self._batches(columns):
            if first + batch.num_rows > start:
                yield from slices(batch, first, max(0, start - first))
            first += batch.num_rows
