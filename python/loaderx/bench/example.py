"""Stores to measure when none is given: small ones of a few kinds, in a folder that is gone afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from loaderx.utils import from_iterator, from_numpy

IMAGES, TOKENS, SEQUENCES = 8_000, 50_000, 50_000


@contextmanager
def stores(part: float = 1.0) -> Iterator[list[Path]]:
    """The paths of the stores; `part` of the records."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="loaderx-bench-") as folder:
        root = Path(folder)
        images = rng.integers(0, 64, (max(1, int(part * IMAGES)), 3, 64, 64), np.uint8)
        tokens = rng.zipf(1.3, (max(1, int(part * TOKENS)), 512)).clip(0, 50_000).astype(np.int32)
        lengths = rng.integers(16, 513, max(1, int(part * SEQUENCES)))
        from_numpy(root / "images-raw", images, codec="raw")
        from_numpy(root / "images-zstd", images, codec="zstd")
        from_numpy(root / "tokens-raw", tokens, codec="raw")
        sequences = (tokens[i % len(tokens), :length] for i, length in enumerate(lengths))
        from_iterator(root / "sequences-zstd", sequences, np.int32, codec="zstd")
        yield sorted(root.iterdir())
