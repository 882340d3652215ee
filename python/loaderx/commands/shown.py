"""Stores in a few words."""

from __future__ import annotations

from pathlib import Path

from loaderx._core import Store
from loaderx.dataset import MSDataset
from loaderx.dataset import schema as schemas
from loaderx.dataset.streams import KINDS
from loaderx.zrecord import Zrecord


def described(path: Path) -> str:
    """The store at `path`."""
    if not Store.exists(path):
        with MSDataset(path, read_only=True) as streams:
            return repr(streams)
    if not (path / schemas.FILE).exists():
        with Zrecord(path, read_only=True) as store:
            return repr(store)
    with KINDS[schemas.read(path).kind](path, read_only=True) as dataset:
        return repr(dataset)
