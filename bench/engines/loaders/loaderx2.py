"""The published loaderx 2.x, with its defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from loaderx import Allocator, Loader
from loaderx.sampler import Sampler
from loaderx.zrecord import DenseStore, DenseWriter

PACKAGE = "loaderx"


def write(path: Path, rows: npt.NDArray[Any], labels: npt.NDArray[Any], codec: str) -> None:
    path.mkdir()
    for name, stream in (("data", rows), ("label", labels)):
        with DenseWriter(path / name, stream.dtype, stream.shape[1:], codec=codec) as writer:
            writer.append(stream)


def open_loader(path: Path, batch: int) -> Any:
    allocator = Allocator("cpu")
    views = {name: [DenseStore(path / name).bind(allocator)] for name in ("data", "label")}
    sampler = Sampler(len(views["label"][0]), batch, Sampler.Mode.CYCLIC, 42)
    return Loader(views, sampler)


def arrays(batch: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return np.from_dlpack(batch[0]["data"]), np.from_dlpack(batch[0]["label"])


def close(loader: Any) -> None:
    loader.close()
