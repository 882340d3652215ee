"""HDF5: packed values and offsets; a batch is a list of slices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy.typing as npt

PACKAGE = "h5py"
Array = npt.NDArray[Any]


def write(path: Path, records: tuple[Array, Array], codec: str) -> None:
    path.mkdir()
    with h5py.File(path / "records.h5", "w") as file:
        file.create_dataset("values", data=records[0])
        file.create_dataset("offsets", data=records[1])


def open_store(path: Path) -> tuple[Any, Array, Any]:
    file = h5py.File(path / "records.h5", "r")
    return file["values"], file["offsets"][:], file


def gather(store: tuple[Any, Array, Any], indices: Array) -> list[Array]:
    values, offsets, _ = store
    bounds = zip(offsets[indices].tolist(), offsets[indices + 1].tolist(), strict=True)
    return [values[start:end] for start, end in bounds]


def close(store: tuple[Any, Array, Any]) -> None:
    store[2].close()
