"""This project's loaderx: batches as packed values and offsets, which the record layer gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from loaderx.zrecord import Zrecord

PACKAGE = "loaderx"
Array = npt.NDArray[Any]
ITEM = np.dtype("<i4")


def open_store(path: Path, **how: Any) -> Zrecord:
    return Zrecord(path, read_only=True, **how)


def gather(store: Zrecord, indices: Array) -> tuple[Array, Array]:
    packed, starts, _ = store.gather_shaped(indices.astype(np.uint64))
    return packed.view(ITEM), starts // ITEM.itemsize


def close(store: Zrecord) -> None:
    store.close()
