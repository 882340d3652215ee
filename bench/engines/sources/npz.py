"""Images and labels as two arrays of a .npz, not compressed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PACKAGE = "numpy"


def dense(folder: Path, rows: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Path:
    np.savez(folder / "images.npz", images=rows, labels=labels)
    return folder / "images.npz"
