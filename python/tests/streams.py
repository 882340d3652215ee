"""Three aligned streams for the loader's tests, and the order that every loader over them must keep."""

from __future__ import annotations

import itertools

import numpy as np
from loaderx.dataloader import DataLoader
from loaderx.sampler import Sampler

COUNT = 23
SHAPES = [(i % 4,) if i % 3 else (2, i % 5) for i in range(COUNT)]
TOKENS = [np.full(shape, i, np.int32) for i, shape in enumerate(SHAPES)]
IMAGES = np.arange(COUNT * 6, dtype=np.uint16).reshape(COUNT, 2, 3)


def steps(loader: DataLoader, count: int) -> list[list[int]]:
    return [batch["index"].tolist() for batch in itertools.islice(loader, count)]


def unbroken(count: int, batch_size: int = 5, mode: int = 2, seed: int = 42) -> list[list[int]]:
    return [batch.tolist() for batch in itertools.islice(Sampler(COUNT, batch_size, mode, seed), count)]
