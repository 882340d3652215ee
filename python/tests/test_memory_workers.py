"""Worker processes over very many records take little more than bare processes do: the index is in files, which all of them share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import proc
import pytest
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.dataset.packed import Packed
from loaderx.utils import from_numpy

PROGRAM = Path(__file__).with_name("many_records.py")
RECORDS = 4_000_000
ALLOWED = 64 << 20
"""Bytes, for all processes together. A Python list of the records' numbers alone would take 140 MB in each of them."""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two streams of very many small records, and a store of few."""
    root = tmp_path_factory.mktemp("many")
    with DenseDataset(root / "many" / "dense", np.uint32, (), "raw") as dense:
        dense.append(np.arange(RECORDS, dtype=np.uint32))
    with RaggedDataset(root / "many" / "ragged", np.uint8, "raw") as ragged:
        offsets = np.concatenate([[0], np.cumsum(np.arange(RECORDS) % 5)])
        ragged.append(Packed(np.zeros(offsets[-1], np.uint8), offsets))
    from_numpy(root / "few", np.arange(1000, dtype=np.uint32), codec="raw")
    return root


@proc.needs_proc
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("whose", "workers"), [("loaderx", 4), ("loaderx", 8), ("torch", 4)])
def test_workers_share_the_index(many: Path, whose: str, workers: int) -> None:
    if whose == "torch":
        pytest.importorskip("torch")
    command = [sys.executable, "-W", "ignore", str(PROGRAM), str(many), whose, str(workers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    less, more = map(int, done.stdout.split())
    assert more - less < ALLOWED, f"{(more - less) >> 20} MiB more than {less >> 20} MiB"
