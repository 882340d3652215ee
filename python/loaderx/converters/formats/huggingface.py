"""Datasets of Hugging Face: directories of `save_to_disk`, and `datasets.Dataset` in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from loaderx.converters.arrow.ipc import ipc_source
from loaderx.converters.arrow.tables import Read, TableSource
from loaderx.converters.identity import fingerprint
from loaderx.converters.source import PART_BYTES, Format

STATE = "state.json"
SPLITS = "dataset_dict.json"


def finds(path: Path) -> list[Path]:
    """What a saved dataset says of itself; `source` reads there which files it has."""
    return [path / name for name in (STATE, SPLITS) if (path / name).is_file()][:1]


def source(given: Any, *, nulls: str | Sequence[str] = "refuse", utc: bool = False) -> TableSource:
    """The files of saved datasets, or a dataset in memory."""
    if isinstance(given, list):
        return ipc_source([file for state in given for file in files_of(state)], nulls, utc)
    if type(given).__name__ == "DatasetDict":
        raise ValueError(f"these are several datasets: convert one of them, such as dataset[{next(iter(given), '')!r}]")
    return TableSource([], given.features.arrow_schema, [Rows(given)], nulls, utc, partial(identity, given))


def identity(dataset: Any) -> str | None:
    """The fingerprint that the package keeps of how it was made, with the files that hold it, which others may write meanwhile."""
    made = getattr(dataset, "_fingerprint", None)
    try:
        files = fingerprint([Path(file["filename"]) for file in dataset.cache_files])
    except OSError:
        return None  # a file that is open, and gone
    return made and f"{made}, {files}"


def files_of(state: Path) -> list[Path]:
    """The files of a saved dataset. ValueError for several, for one with an index, or for names that lead elsewhere."""
    try:
        found = json.loads(state.read_bytes())
        if state.name == SPLITS:
            splits = ", ".join(str(state.parent / str(name)) for name in found["splits"])
            raise SplitsError(f"{state.parent}: these are several datasets: convert one of {splits}")
        names = [str(file["filename"]) for file in found["_data_files"]]
        indices = found.get("_indices_data_files")
    except SplitsError as error:
        raise ValueError(str(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{state}: not what save_to_disk writes: {error!r}") from error
    if indices:
        raise ValueError(f"{state}: its records are in an order of their own; save flatten_indices() of it")
    if not names:
        raise ValueError(f"{state}: it has no files")
    for name in names:
        if Path(name).name != name:
            raise ValueError(f"{state}: expected names of files beside it, found {name!r}")
    return [state.parent / name for name in names]


class SplitsError(Exception):
    """Several datasets in one directory."""


class Rows:
    """The rows of a `datasets.Dataset`, in the order that it has after `select` or `shuffle`."""

    where = ""

    def __init__(self, dataset: Any) -> None:
        self.rows = len(dataset)
        self._dataset = dataset

    def reads(self, start: int, columns: Sequence[str]) -> Iterator[tuple[int, Read]]:
        """Slices, as many rows each as would make a part if all were alike."""
        table = self._dataset.data
        step = max(1, len(table) * PART_BYTES // max(1, table.nbytes))
        chosen = self._dataset.with_format("arrow", columns=list(columns))
        for first in range(start, self.rows, step):
            yield first, partial(chosen.__getitem__, slice(first, min(first + step, self.rows)))


def takes(value: Any) -> bool:
    """Datasets in memory."""
    return type(value).__module__.split(".")[0] == "datasets" and type(value).__name__ in ("Dataset", "DatasetDict")


FORMAT = Format("huggingface", "Hugging Face datasets", finds, source, "pyarrow", takes)
