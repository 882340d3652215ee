"""A loaderx: this project's or the published 1.5.7, with its defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy

PACKAGE = "loaderx"


def write(path: Path, rows: npt.NDArray[Any], labels: npt.NDArray[Any], codec: str) -> None:
    from_numpy(path / "data", rows, codec=codec)
    from_numpy(path / "label", labels, codec=codec)


def open_loader(path: Path, batch: int, workers: int = 4, **options: Any) -> DataLoader:
    streams = {name: DenseDataset(path / name) for name in ("data", "label")}
    return DataLoader(streams, num_workers=workers, batch_size=batch, **options)


def arrays(batch: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return batch["data"], batch["label"]


def close(loader: DataLoader) -> None:
    loader.close()
