"""Grain's own pipeline over memory-mapped .npy files: shuffle, repeat, batch, its default threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grain
import numpy as np
import numpy.typing as npt

PACKAGE = "grain"


class Streams:
    def __init__(self, path: Path) -> None:
        self.data, self.label = (np.load(path / f"{name}.npy", mmap_mode="r") for name in ("data", "label"))

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"data": np.array(self.data[index]), "label": self.label[index]}


def write(path: Path, rows: npt.NDArray[Any], labels: npt.NDArray[Any], codec: str) -> None:
    path.mkdir()
    np.save(path / "data.npy", rows)
    np.save(path / "label.npy", labels)


def open_loader(path: Path, batch: int) -> Any:
    records = grain.MapDataset.source(Streams(path)).shuffle(seed=42).repeat()
    return iter(records.batch(batch).to_iter_dataset())


def arrays(batch: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return batch["data"], batch["label"]


def close(loader: Any) -> None:
    pass
