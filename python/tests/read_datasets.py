"""Two datasets that were read from, for threads and processes that go on with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.utils import from_iterator, from_numpy
from support import same

ROWS = np.arange(400 * 300, dtype=np.int32).reshape(400, 300)


def read_from(folder: Path) -> tuple[DenseDataset, RaggedDataset]:
    """Two datasets that were read from, so that whatever threads they have exist."""
    from_numpy(folder / "dense", ROWS)
    from_iterator(folder / "ragged", (row[: 1 + i % 300] for i, row in enumerate(ROWS)), np.int32)
    dense, ragged = DenseDataset(folder / "dense"), RaggedDataset(folder / "ragged")
    assert len(dense[:]) == len(ragged[:]) == 400
    return dense, ragged


def checked(datasets: tuple[DenseDataset, RaggedDataset], seed: int) -> int:
    """Read both at random; the number of right records."""
    dense, ragged = datasets
    right = 0
    for indices in np.random.default_rng(seed).integers(0, 400, (20, 64)):
        right += sum(same(a, ROWS[i]) for a, i in zip(dense[indices], indices, strict=True))
        right += sum(same(a, ROWS[i, : 1 + i % 300]) for a, i in zip(ragged[indices], indices, strict=True))
    return right
