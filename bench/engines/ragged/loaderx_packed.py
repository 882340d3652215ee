"""This project's loaderx: written and read as packed values and offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from loaderx.dataset import Packed, RaggedDataset
from loaderx.utils import train_dict

PACKAGE = "loaderx"
Array = npt.NDArray[Any]


def prepare(records: tuple[Array, Array]) -> Packed:
    """In memory, as for the list."""
    return Packed(np.array(records[0]), records[1])


def write(path: Path, records: Packed, codec: str) -> None:
    with RaggedDataset(path, records.values.dtype, codec=codec) as store:
        if codec == "zstd_dict":
            store.install_dict(train_dict(np.split(records.values, records.offsets[1:-1])))
        store.append(records)


def open_store(path: Path, **how: Any) -> RaggedDataset:
    return RaggedDataset(path, read_only=True, **how)


def gather(store: RaggedDataset, indices: Array) -> tuple[Array, Array]:
    values, offsets, _ = store.packed(indices)
    return values, offsets


def close(store: RaggedDataset) -> None:
    store.close()
