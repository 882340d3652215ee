"""Batches of more than 2^32 bytes and more than 2^31 elements, or of a million records: only where LOADERX_LARGE says so.

They take 5 GiB of memory; the batch of a loader takes 14, and is left out where there are fewer.
"""

from __future__ import annotations

import _thread
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from loaderx.dataloader import DataLoader
from loaderx.dataset import DenseDataset, Packed, RaggedDataset

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


def available() -> int:
    """Bytes of memory that nobody uses."""
    lines = Path("/proc/meminfo").read_text().splitlines() if Path("/proc/meminfo").exists() else []
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)


def test_a_packed_batch_of_more_than_2_pow_31_elements_goes_out_and_in(tmp_path: Path) -> None:
    records = [record[: PIECE - 1000 * i - 1] for i, record in enumerate(pieces(np.uint8))]
    with RaggedDataset(tmp_path / "from", dtype=np.uint8, codec="raw") as ds:
        ds.append(records)
        indices = np.arange(36) * 3 % 4
        batch = ds.packed(indices)
        assert batch.offsets.dtype == np.int64
        assert batch.offsets[-1] == len(batch.values) > 1 << 31
        assert np.array_equal(np.diff(batch.offsets), [len(records[i]) for i in indices])
        assert np.array_equal(batch.values[batch.offsets[-2] :], records[indices[-1]])
    with RaggedDataset(tmp_path / "to", dtype=np.uint8, codec="raw") as ds:
        assert ds.append(Packed(batch.values, batch.offsets)) == 0
        del batch
        assert ds.lengths(slice(None)).tolist() == [len(records[i]) for i in indices]
        for i in (0, 17, 35):
            assert np.array_equal(ds[i], records[indices[i]])


@pytest.mark.skipif(available() < 14 << 30, reason="not enough memory")
def test_a_loader_delivers_a_batch_of_6_gib(tmp_path: Path) -> None:
    records = pieces(np.uint8)
    with DenseDataset(tmp_path / "dense", dtype=np.uint8, item_shape=(PIECE,), codec="raw") as ds:
        ds.append(np.stack(records))
        with DataLoader({"x": ds}, batch_size=97, mode=1, prefetch_size=1) as loader:
            batch = next(loader)["x"]
        assert batch.nbytes > 6 << 30
        for row in batch[:: len(batch) - 1]:
            assert any(np.array_equal(row, record) for record in records)


def test_a_gather_of_a_million_takes_ten_times_that_of_a_tenth(tmp_path: Path) -> None:
    offsets = np.arange(200_001) * 16
    with RaggedDataset(tmp_path / "ds", dtype=np.int32, codec="raw") as ds:
        ds.append(Packed(np.arange(offsets[-1], dtype=np.int32), offsets))

        def seconds(count: int) -> float:
            indices = np.random.default_rng(count).integers(0, len(ds), count)
            start = time.perf_counter()
            batch = ds.packed(indices)
            taken = time.perf_counter() - start
            assert np.array_equal(batch.values[::16], indices * 16)
            return taken

        few, many = (min(seconds(count) for _ in range(5)) for count in (100_000, 1_000_000))
        assert many <= 12 * few, f"{few} s and {many} s"


def test_ctrl_c_during_a_large_gather_is_seen_when_it_returns(tmp_path: Path) -> None:
    offsets = np.arange(200_001) * 16
    with RaggedDataset(tmp_path / "ds", dtype=np.int32, codec="zstd") as ds:
        ds.append(Packed(np.arange(offsets[-1], dtype=np.int32), offsets))
        indices = np.random.default_rng(0).integers(0, len(ds), 1_000_000)
        timer = threading.Timer(0.02, _thread.interrupt_main)
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            for _ in range(100):
                ds.packed(indices)
        timer.join()
        assert ds[0].tolist() == list(range(16))
