"""An array of images in a .npy; labels would be another conversion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PACKAGE = "numpy"


def dense(folder: Path, rows: npt.NDArray[Any], labels: npt.NDArray[Any]) -> Path:
    np.save(folder / "images.npy", rows)
    return folder / "images.npy"
