"""Worker processes of a loader over very many records: each needs little more than a bare process (B1 of the public reports)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import proc
import pytest
from loaderx.dataset import DenseDataset
from support import run_python

HERE = Path(__file__).parent
RECORDS = 4_000_000
ALLOWED = 64 << 20
"""Bytes, of all processes together. A Python list of the records' numbers alone would take 140 MB in each of them."""

LOADER = """
import multiprocessing, sys
import numpy as np
import proc
from loaderx import DataLoader, DenseDataset
from loaderx.dataloader.processes.starting import method

path, count = sys.argv[1], int(sys.argv[2])


def bare(told, go_on):
    told.set()
    go_on.wait(60)


def settled(processes):
    return proc.pss([os.getpid(), *processes])


if __name__ == "__main__":
    ...
"""
