"""The memory of a loader's batches: what frameworks and devices may rely on."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset
from loaderx.utils import from_numpy
from support import same

ALIGNMENT = 64
SIZES = [1, 3, 100, 5000, 300_000]
"""Bytes a record: batches of 7 bytes to 2 MB."""


@pytest.fixture
def sized(tmp_path: Path) -> dict[str, DenseDataset]:
    for size in SIZES:
        from_numpy(tmp_path / str(size), np.random.default_rng(size).integers(0, 256, (20, size), np.uint8), "raw")
    return {str(size): DenseDataset(tmp_path / str(size), read_only=True) for size in SIZES}


def test_batches_are_their_consumers(sized: dict[str, Any]) -> None:
    """Writable, C-contiguous, and never used for another batch while it lives."""
    with DataLoader(sized, batch_size=7) as loader:
        kept = list(itertools.islice(loader, 12))
        copies = [{name: values.copy() for name, values in batch.items()} for batch in kept]
        for batch in itertools.islice(loader, 30):
            for values in batch.values():
                assert values.flags.writeable
                assert values.flags.c_contiguous
                values[:] = 0
        assert all(same(a[name], b[name]) for a, b in zip(kept, copies, strict=True) for name in a)


def test_batches_are_aligned(sized: dict[str, Any]) -> None:
    with DataLoader(sized, batch_size=7) as loader:
        for batch in itertools.islice(loader, 40):
            assert all(values.ctypes.data % ALIGNMENT == 0 for values in batch.values())
