"""Lance datasets, fragment by fragment."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from loaderx.converters.arrow.tables import Piece, Read, TableSource, same_schema
from loaderx.converters.source import PART_BYTES, Format

SAMPLE = 64
"""Rows that tell about how long those of a fragment are."""


class Fragment:
    """Rows that lie in one file; those that were deleted don't count."""

    def __init__(self, fragment: Any, where: str) -> None:
        self.where = f"{where}: fragment {fragment.fragment_id}: "
        with lance_errors(self.where):
            self.rows = fragment.count_rows()
        self._fragment = fragment

    def reads(self, start: int, columns: Sequence[str]) -> Iterator[tuple[int, Read]]:
        """Ranges."""
        with lance_errors(self.where):
            sample = self._fragment.to_table(columns=list(columns), limit=min(SAMPLE, self.rows))
        step = max(1, PART_BYTES * len(sample) // max(1, sample.nbytes))
        for first in range(start, self.rows, step):
            yield first, partial(self._read, list(columns), first, min(step, self.rows - first))

    def _read(self, columns: list[str], start: int, count: int) -> Any:
        with lance_errors(self.where):
            table = self._fragment.to_table(columns=columns, offset=start, limit=count)
        if len(table) != count:
            raise ValueError(f"{self.where}expected {count} rows from row {start} on, found {len(table)}")
        return table


@contextmanager
def lance_errors(where: str) -> Iterator[None]:
    """What Lance raises, also where its Rust panics, as a ValueError that says where."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{where}it can't be read: {error}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"{where}it can't be read: {error}") from error


def source(given: Any, *, nulls: str | Sequence[str] = "refuse", utc: bool = False) -> TableSource:
    """Datasets, by their manifests, or one that is open."""
    import lance

    files = given if isinstance(given, list) else []
    opened: dict[str, Any] = {}
    for directory in dict.fromkeys(str(file.parent.parent) for file in files):
        with lance_errors(f"{directory}: "):
            opened[directory] = lance.dataset(directory)
    if not files:
        opened["lance"] = given
    pieces: list[Piece] = []
    for where, dataset in opened.items():
        with lance_errors(f"{where}: "):
            fragments = dataset.get_fragments()
        pieces += [Fragment(fragment, where) for fragment in fragments]
    schema = same_schema({where: dataset.schema for where, dataset in opened.items()})
    return TableSource(files, schema, pieces, nulls, utc, partial(identity, given))


def identity(dataset: Any) -> str:
    """Where an open dataset is, its version, and its files: their names are drawn at random, and no file is ever written twice."""
    files = [
        [[file.path for file in fragment.data_files()], fragment.deletion_file()]
        for fragment in dataset.get_fragments()
    ]
    return f"{dataset.uri}, version {dataset.version}, {hashlib.sha256(repr(files).encode()).hexdigest()}"


def finds(path: Path) -> list[Path]:
    """The manifests of a dataset."""
    return sorted((path / "_versions").glob("*.manifest")) if (path / "_versions").is_dir() else []


def takes(value: Any) -> bool:
    """A dataset of Lance."""
    return type(value).__module__.split(".")[0] == "lance" and type(value).__name__ == "LanceDataset"


FORMAT = Format("lance", "Lance", finds, source, "pylance", takes)
