"""The transform of the bench's `augment` mode: Python for every sample, mostly under the interpreter's lock.

A function of the batch alone, so that every loader must give the same. Imports NumPy only: it runs in each engine's environment.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

MARGIN = 4


def augment(batch: dict[str, Any]) -> dict[str, Any]:
    """Each image is perhaps mirrored, shifted by up to MARGIN pixels, and normalised: u8 to f32, shape (n, channels, height, width)."""
    images, labels = batch["data"], batch["label"]
    out = np.empty(images.shape, np.float32)
    for i, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
        rng = random.Random(label)
        if rng.random() < 0.5:
            image = image[:, :, ::-1]
        down, right = rng.randint(-MARGIN, MARGIN), rng.randint(-MARGIN, MARGIN)
        for channel, pixels in enumerate(image):
            mean, scale = float(pixels.mean()), 1.0 / (float(pixels.std()) + 1.0)
            out[i, channel] = (np.roll(pixels, (down, right), (0, 1)) - mean) * scale
    return {"data": out, "label": labels}
