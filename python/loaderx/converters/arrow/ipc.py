"""Arrow IPC files and streams, batch by batch."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from loaderx.converters.arrow.messages import BATCH, FEATHER_1, FILE_MAGIC, Message, messages
from loaderx.converters.arrow.tables import Piece, Read, TableSource, arrow_errors, same_schema, slices
from loaderx.converters.source import PART_BYTES

WHOLE = 4
"""Record batches of up to so many parts are read by one thread each, several at once."""


def ipc_source(files: Sequence[Path], nulls: str | Sequence[str], utc: bool) -> TableSource:
    """The record batches of all files."""
    schemas: dict[str, Any] = {}
    pieces: list[Piece] = []
    for path in files:
        with arrow_errors(f"{path}: "):
            schemas[str(path)], more = pieces_of(path)
        pieces += more
    with arrow_errors(f"{files[0]}: "):
        schema = same_schema(schemas)
    return TableSource(files, schema, pieces, nulls, utc)


def pieces_of(path: Path) -> tuple[Any, list[Piece]]:
    """The schema of a file, and its batches."""
    import pyarrow as pa

    with path.open("rb") as file:
        magic = file.read(6)
    if magic[:4] == FEATHER_1:
        raise ValueError(
            f"{path}: Feather version 1; read it with pyarrow.feather and convert the table, or write version 2"
        )
    is_file = magic == FILE_MAGIC
    with pa.OSFile(str(path)) as file:
        reader = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(file)
        schema = reader.schema
        expected = reader.num_record_batches if is_file else None
    found = list(messages(path))
    batches = [message for message in found if message.kind == BATCH]
    if expected not in (None, len(batches)):
        raise ValueError(f"{path}: its footer says {expected} record batches, and {len(batches)} are there")
    if is_file:
        threads = Readers()
        return schema, [BatchOfFile(path, number, one, schema, threads) for number, one in enumerate(batches)]
    if len(found) != len(batches):
        return schema, [StreamWithDictionaries(path, sum(one.rows for one in batches))]
    return schema, [BatchOfStream(path, number, one, schema) for number, one in enumerate(batches)]


class Batch:
    """A record batch of a file."""

    def __init__(self, path: Path, number: int, message: Message, schema: Any) -> None:
        self.rows, self.where = message.rows, f"{path}: record batch {number}: "
        self._path, self._number, self._message, self._schema = path, number, message, schema

    def reads(self, start: int, columns: Sequence[str]) -> Iterator[tuple[int, Read]]:
        """The batch at once, or one that is large in slices, which share it."""
        if self._message.size <= WHOLE * PART_BYTES:
            yield start, partial(self._from, start, columns)
        else:
            yield from slices(self._read(columns), 0, start)

    def _from(self, start: int, columns: Sequence[str]) -> Any:
        return self._read(columns).slice(start)

    def _read(self, columns: Sequence[str]) -> Any:
        batch = self._batch(columns)
        batch.validate(full=True)
        if batch.num_rows != self.rows:
            raise ValueError(f"{self.where}expected {self.rows} rows, found {batch.num_rows}")
        return batch

    def _batch(self, columns: Sequence[str]) -> Any:
        raise NotImplementedError


class BatchOfStream(Batch):
    """One of a stream without dictionaries, where each stands for itself."""

    def _batch(self, columns: Sequence[str]) -> Any:
        import pyarrow as pa

        with pa.OSFile(str(self._path)) as file:
            file.seek(self._message.offset)
            return pa.ipc.read_record_batch(pa.ipc.read_message(file), self._schema).select(list(columns))


class BatchOfFile(Batch):
    """One of a file, of which only the columns that are wanted are read."""

    def __init__(self, path: Path, number: int, message: Message, schema: Any, threads: Readers) -> None:
        super().__init__(path, number, message, schema)
        self._threads = threads

    def _batch(self, columns: Sequence[str]) -> Any:
        fields = sorted(self._schema.get_field_index(name) for name in columns)
        return self._threads.of(self._path, fields).get_batch(self._number)


class Readers(threading.local):
    """The reader of a thread."""

    key: tuple[Path, list[int]] | None = None
    reader: Any = None

    def of(self, path: Path, fields: list[int]) -> Any:
        """A reader of some columns of a file."""
        import pyarrow as pa

        if self.key != (path, fields):
            self.reader = pa.ipc.open_file(pa.OSFile(str(path)), options=pa.ipc.IpcReadOptions(included_fields=fields))
            self.key = (path, fields)
        return self.reader


class StreamWithDictionaries:
    """A stream whose dictionaries may change from batch to batch, so that it is read from its beginning."""

    def __init__(self, path: Path, rows: int) -> None:
        self.rows, self.where, self._path = rows, f"{path}: ", path

    def reads(self, start: int, columns: Sequence[str]) -> Iterator[tuple[int, Read]]:
        """Batch after batch; those before `start` are left out."""
        import pyarrow as pa

        first = 0
        with pa.OSFile(str(self._path)) as file:
            for batch in pa.ipc.open_stream(file):
                if first + batch.num_rows > start:
                    batch.validate(full=True)
                    yield from slices(batch.select(list(columns)), first, max(0, start - first))
                first += batch.num_rows
