"""Apache Arrow: IPC files and streams, Feather, and tables in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from loaderx.converters.arrow.ipc import ipc_source
from loaderx.converters.arrow.messages import CONTINUATION, FEATHER_1, FILE_MAGIC
from loaderx.converters.arrow.tables import InMemory, Piece, Sequential, TableSource
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
    return TableSource([], given.schema, [piece_of(given)], nulls, utc)


def piece_of(given: Any) -> Piece:
    """An object as one piece."""
    import pyarrow as pa

    if isinstance(given, pa.RecordBatch):
        return InMemory(pa.Table.from_batches([given]))
    if isinstance(given, pa.Table):
        return InMemory(given)
    if isinstance(given, pa.RecordBatchReader):
        return Sequential(once(given))
    return Sequential(lambda columns: given.scanner(columns=list(columns)).to_batches(), given.count_rows())


def once(reader: Any) -> Callable[[Sequence[str]], Iterator[Any]]:
    """The batches of a reader. ValueError for a second time: they are gone."""
    used: list[bool] = []

    def batches(columns: Sequence[str]) -> Iterator[Any]:
        if used:
            raise ValueError(
                "a RecordBatchReader gives its batches once: it can't be read a second time for check=True"
            )
        used.append(True)
        for batch in reader:
            yield batch.select(list(columns))

    return batches


FORMAT = Format("arrow", "Apache Arrow", finds, source, "pyarrow", takes)
