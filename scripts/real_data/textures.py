"""Encoded images: 2,720 PNG and JPEG files of 78 bytes to 2.7 MB, as bytes (UFO:AI game textures, mostly GPL-2+)."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .source import Source

ARCHIVE = "usr/share/games/ufoai/base/0textures.pk3"


def load(root: Path) -> list[npt.NDArray[Any]]:
    with zipfile.ZipFile(root / ARCHIVE) as archive:
        names = [name for name in archive.namelist() if name.lower().endswith((".png", ".jpg"))]
        return [np.frombuffer(archive.read(name), np.uint8) for name in names]


FILES = Source("encoded images", "ufoai-textures", load, batch_size=64)
