"""Batches of more than 2^32 bytes and more than 2^31 elements. They take 5 GiB of memory: only where LOADERX_LARGE says so."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from loaderx.dataset import DenseDataset, RaggedDataset

pytestmark = pytest.mark.skipif(not os.environ.get("LOADERX_LARGE"), reason="make test-large runs it")

PIECE = 64 << 20
"""Elements of a record."""


def pieces(dtype: type[np.generic]) -> list[np.ndarray[tuple[int], np.dtype[np.generic]]]:
    rng = np.random.default_rng(1)
    return [rng.integers(0, 256, PIECE, np.uint8).astype(dtype, copy=False) for _ in range(4)]


def test_a_dense_batch_of_more_than_4_gib(tmp_path: Path) -> None:
    records = pieces(np.uint8)
    with DenseDataset(tmp_path / "dense", dtype=np.uint8, item_shape=(1 << 13, 1 << 13), codec="raw") as ds:
        for record in records:
            ds.append(record.reshape(1, 1 << 13, 1 << 13))
        indices = np.arange(66) * 3 % 4
        batch = ds[indices]
        assert batch.shape == (66, 1 << 13, 1 << 13)
        assert batch.nbytes > 1 << 32
        for row, index in zip(batch, indices, strict=True):
            assert np.array_equal(row.reshape(-1), records[index])


def test_a_ragged_batch_of_more_than_2_pow_31_elements(tmp_path: Path) -> None:
    records = pieces(np.uint8)
    # Of several lengths, so that no start is a multiple of the others.
    records = [record[: PIECE - 1000 * i - 1] for i, record in enumerate(records)]
    with RaggedDataset(tmp_path / "ragged", dtype=np.uint8, codec="raw") as ds:
        for record in records:
            ds.append([record])
        indices = np.arange(36) * 3 % 4
        batch = ds[indices]
        starts = np.concatenate([[0], np.cumsum([len(records[i]) for i in indices])])
        assert starts[-1] > 1 << 31
        assert len(batch) == 36
        for i, index in enumerate(indices):
            assert np.array_equal(batch[i], records[index])
