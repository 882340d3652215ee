"""Twenty passes, and what the process has of everything after each: no more in the end than in the beginning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import proc
import pytest
from loaderx.utils import from_iterator, from_numpy
from passes import PASSES, RECORDS, WARM, WIDTH

PROGRAM = Path(__file__).with_name("passes.py")
ALLOWED = 2 << 20
"""Bytes beside 2 %: a pass makes some hundred calls at least, so this is less than a kilobyte for each."""


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("leaks") / "streams"
    rows = np.random.default_rng(0).integers(0, 256, (RECORDS, WIDTH), np.uint8)
    from_numpy(root / "dense", rows, codec="raw")
    from_numpy(root / "small", rows, codec="zstd")
    from_iterator(root / "ragged", (row[:i].reshape(1, -1) for i, row in enumerate(rows)), np.uint8)
    return root


@proc.needs_proc
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "what",
    [
        "gathers",
        "refused",
        "opened",
        "written",
        "native",
        "threads",
        "processes",
        "new native",
        "new threads",
        "new processes",
    ],
)
def test_twenty_passes_leave_nothing(streams: Path, what: str) -> None:
    command = [sys.executable, "-W", "error", str(PROGRAM), str(streams), what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    memory, files, threads, objects = zip(*(map(int, line.split()) for line in done.stdout.splitlines()), strict=True)
    assert len(memory) == WARM + PASSES
    assert memory[-1] <= memory[WARM] * 1.02 + ALLOWED, memory
    assert files[-1] <= files[WARM], files
    assert threads[-1] <= threads[WARM] + 1, threads
    assert objects[-1] <= objects[WARM] + 100, objects
