"""Fashion-MNIST: 70,000 grey images of clothes, 28 x 28 bytes each, and their labels (MIT, Zalando)."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .source import Source

PACKAGE = "dataset-fashion-mnist"
FOLDER = "usr/share/datasets/fashion-mnist"
PARTS = ("train", "t10k")


def read_idx(path: Path) -> npt.NDArray[Any]:
    """The IDX format: two zero bytes, a type, the rank, big-endian dimensions, then the bytes."""
    content = gzip.decompress(path.read_bytes())
    rank = content[3]
    shape = np.frombuffer(content, ">i4", rank, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def load_images(root: Path) -> npt.NDArray[Any]:
    return np.concatenate([read_idx(root / FOLDER / f"{part}-images-idx3-ubyte.gz") for part in PARTS])


def load_labels(root: Path) -> npt.NDArray[Any]:
    parts = [read_idx(root / FOLDER / f"{part}-labels-idx1-ubyte.gz") for part in PARTS]
    labels: npt.NDArray[Any] = np.concatenate(parts).astype(np.int64)
    return labels


IMAGES = Source("Fashion-MNIST images", PACKAGE, load_images)
LABELS = Source("Fashion-MNIST labels", PACKAGE, load_labels)
