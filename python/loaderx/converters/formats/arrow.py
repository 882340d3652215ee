"""Apache Arrow: IPC files and streams, Feather, and tables in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakSet

from loaderx.converters.arrow.identity import of_dataset, of_table
from loaderx.converters.arrow.ipc import ipc_source
from loaderx.converters.arrow.messages import CONTINUATION, FEATHER_1, FILE_MAGIC
from loaderx.converters.arrow.scanning import batches_of
from loaderx.converters.arrow.tables import InMemory, Sequential, TableSource
from loaderx.converters.finding import with_suffix
from loaderx.converters.formats.splits import one_split
from loaderx.converters.source import Format

SUFFIXES = (".arrow", ".arrows", ".feather", ".ipc")
OF_DATASETS = ("state.json", "dataset_dict.json")
"""Files of directories that are Hugging Face's."""
TABLES = (
    "Table",
    "RecordBatch",
    "RecordBatchReader",
    "Dataset",
    "FileSystemDataset",
    "InMemoryDataset",
    "UnionDataset",
)


def finds(path: Path) -> list[Path]:
    """Files by their names, or a single one by its first bytes; not those in a dataset of Hugging Face. ValueError for several splits."""
    if path.is_file() and not path.name.lower().endswith(SUFFIXES):
        with path.open("rb") as file:
            return [path] if file.read(6) == FILE_MAGIC else []
    if any((path / name).exists() for name in OF_DATASETS):
        return []
    return one_split(path, [file for file in with_suffix(path, SUFFIXES) if is_arrow(file)])


def is_arrow(path: Path) -> bool:
    """Whether a file begins as one of Arrow's; an empty one is left to the error of opening it."""
    with path.open("rb") as file:
        start = file.read(6)
    stream = start[:4] == CONTINUATION.to_bytes(4, "little") or (len(start) == 6 and start[2:4] == b"\0\0")
    return start == FILE_MAGIC or start[:4] == FEATHER_1 or stream or not start


def takes(value: Any) -> bool:
    """Tables, batches, readers and datasets of pyarrow."""
    return type(value).__module__.split(".")[0] == "pyarrow" and type(value).__name__ in TABLES


def source(given: Any, *, nulls: str | Sequence[str] = "refuse", utc: bool = False) -> TableSource:
    """Files, or an object of pyarrow."""
    if isinstance(given, list) and given and isinstance(given[0], Path):
        return ipc_source(given, nulls, utc)
    import pyarrow as pa

    if isinstance(given, pa.RecordBatchReader):
        return Reader([], given.schema, [Sequential(once(given))], nulls, utc)
    if isinstance(given, (pa.Table, pa.RecordBatch)):
        table = given if isinstance(given, pa.Table) else pa.Table.from_batches([given])
        return TableSource([], table.schema, [InMemory(table)], nulls, utc, cache(partial(of_table, table)))
    piece = Sequential(partial(batches_of, given), given.count_rows())
    return TableSource([], given.schema, [piece], nulls, utc, partial(of_dataset, given))


class Reader(TableSource):
    """The batches of a reader, which are gone once they were read."""

    once = True


READ: WeakSet[Any] = WeakSet()
"""Readers that a conversion took batches from. What it took and didn't write is lost to the next one, which can't know of it else."""


def once(reader: Any) -> Callable[[Sequence[str]], Iterator[Any]]:
    """The batches of a reader. ValueError for a second time, also in another conversion: they are gone."""

    def batches(columns: Sequence[str]) -> Iterator[Any]:
        if reader in READ:
            raise ValueError(
                "a RecordBatchReader gives its batches once, and a conversion has read some of this one; make the reader anew"
            )
        READ.add(reader)
        for batch in reader:
            yield batch.select(list(columns))

    return batches


FORMAT = Format("arrow", "Apache Arrow", finds, source, "pyarrow", takes)
