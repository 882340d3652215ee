"""Motion capture: three recordings of the CMU database, rotations of each joint in each frame (mocap.cs.cmu.edu)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .source import Source

PACKAGE = "assimp-testmodels"
FOLDER = "usr/share/assimp/models/BVH"


def read_bvh(path: Path) -> npt.NDArray[Any]:
    """(frames, channels) float32."""
    lines = path.read_text(encoding="latin-1").splitlines()
    first = next(i for i, line in enumerate(lines) if line.strip().startswith("Frame Time")) + 1
    return np.array([line.split() for line in lines[first:] if line.strip()], np.float32)


def recordings(root: Path) -> list[npt.NDArray[Any]]:
    return [read_bvh(path) for path in sorted((root / FOLDER).glob("*.bvh"))]


def load_windows(root: Path) -> npt.NDArray[Any]:
    """(n, 60, 96): windows of 60 frames, a new one each ten frames, of the recordings with 96 channels."""
    skeletons = [frames for frames in recordings(root) if frames.shape[1] == 96]
    windows = [np.lib.stride_tricks.sliding_window_view(frames, 60, 0)[::10] for frames in skeletons]
    return np.ascontiguousarray(np.concatenate(windows).swapaxes(1, 2))


def load_clips(root: Path) -> list[npt.NDArray[Any]]:
    """(frames, channels) clips of 20 to 140 frames that cut every recording, 96 or 66 channels wide."""
    lengths = np.random.default_rng(0)
    clips = []
    for frames in recordings(root):
        start = 0
        while start < len(frames):
            stop = start + int(lengths.integers(20, 141))
            clips.append(np.ascontiguousarray(frames[start:stop]))
            start = stop
    return clips


WINDOWS = Source("motion windows", PACKAGE, load_windows, batch_size=64)
CLIPS = Source("motion clips (2-D)", PACKAGE, load_clips, batch_size=16)
