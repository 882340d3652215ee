"""Indices for random batches, in a file that every engine of a round reads, whatever language it is written in."""

from __future__ import annotations

from pathlib import Path

import numpy as np

MOST_BATCHES = 2000
FEWEST_BATCHES = 5


def write(file: Path, length: int, batch: int, batches: int, seed: int) -> str:
    """Draws with replacement."""
    np.random.default_rng(seed).integers(0, length, (batches, batch)).astype("<u8").tofile(file)
    return str(file)


def write_once(file: Path, length: int, batch: int, batches: int, seed: int) -> str:
    """Draws without replacement: no record twice."""
    np.random.default_rng(seed).permutation(length)[: batches * batch].astype("<u8").tofile(file)
    return str(file)


def batches_for(seconds_a_batch: float, share: float) -> int:
    """How many batches fill an engine's share of a round."""
    return int(min(MOST_BATCHES, max(FEWEST_BATCHES, share / max(seconds_a_batch, 1e-7))))
