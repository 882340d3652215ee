"""No loader: the gathers of a loader's batches one after another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy.typing as npt
from loaderx.dataset import DenseDataset
from loaderx.sampler import Sampler

PACKAGE = "loaderx"


def open_loader(path: Path, batch: int) -> Iterator[dict[str, Any]]:
    streams = {name: DenseDataset(path / name) for name in ("data", "label")}
    sampler = Sampler(len(streams["label"]), batch, Sampler.Mode.CYCLIC)
    return ({name: stream[indices] for name, stream in streams.items()} for indices in sampler)


def arrays(batch: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return batch["data"], batch["label"]


def close(loader: Any) -> None:
    loader.close()
