"""The stores that are compared, a module each with the same functions: write, open_store, gather, close.

An engine module imports NumPy and what it measures, nothing of this bench: it runs in the environment of what
it measures.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Engine:
    name: str
    module: str
    codec: str = "raw"
    requirement: str | None = None
    """What its own virtual environment installs ("name==version"); None means this project's environment."""


ENGINES = (
    Engine("loaderx raw", "loaderx", "raw"),
    Engine("loaderx zstd", "loaderx", "zstd"),
    Engine("loaderx 1.5.7 raw", "loaderx", "raw", "loaderx==1.5.7"),
    Engine("loaderx 1.5.7 zstd", "loaderx", "zstd", "loaderx==1.5.7"),
    Engine("npy, memory-mapped", "npy"),
)
