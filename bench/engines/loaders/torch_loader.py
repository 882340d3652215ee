"""PyTorch's DataLoader with two workers over memory-mapped .npy files.

They fetch a whole batch at once, or a record at a time for its default collate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

PACKAGE = "torch"
WORKERS = 2


class Streams(Dataset[Any]):
    def __init__(self, path: Path) -> None:
        self.data, self.label = (np.load(path / f"{name}.npy", mmap_mode="r") for name in ("data", "label"))

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"data": torch.from_numpy(self.data[index].copy()), "label": self.label[index]}


class WholeBatches(Streams):
    def __init__(self, path: Path, transform: Callable[[dict[str, Any]], dict[str, Any]] | None) -> None:
        super().__init__(path)
        self.transform = transform

    def __getitems__(self, indices: list[int]) -> dict[str, torch.Tensor]:
        batch = {"data": self.data[indices], "label": self.label[indices]}
        if self.transform is not None:
            batch = self.transform(batch)
        return {name: torch.from_numpy(values) for name, values in batch.items()}


class Endless(Sampler[list[int]]):
    """Permutations one after another, cut into batches."""

    def __init__(self, length: int, batch: int) -> None:
        self.length, self.batch = length, batch

    def __iter__(self) -> Iterator[list[int]]:
        rng = np.random.default_rng(42)
        while True:
            order = rng.permutation(self.length)
            for start in range(0, self.length - self.batch + 1, self.batch):
                yield order[start : start + self.batch].tolist()


def as_it_is(batch: Any) -> Any:
    return batch


def write(path: Path, rows: npt.NDArray[Any], labels: npt.NDArray[Any], codec: str) -> None:
    path.mkdir()
    np.save(path / "data.npy", rows)
    np.save(path / "label.npy", labels)


def open_loader(path: Path, batch: int, *, whole: bool, transform: Any = None) -> Any:
    streams = WholeBatches(path, transform) if whole else Streams(path)
    loader = DataLoader(
        streams,
        batch_sampler=Endless(len(streams), batch),
        num_workers=WORKERS,
        collate_fn=as_it_is if whole else None,
        multiprocessing_context="fork",
    )
    return iter(loader)


def arrays(batch: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return batch["data"].numpy(), batch["label"].numpy()


def close(loader: Any) -> None:
    pass
