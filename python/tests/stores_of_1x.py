"""Stores as loaderx 1.x writes them."""

from __future__ import annotations

from pathlib import Path

import msgpack
from loaderx import _core
from support import Array


def as_written_by_1x(path: Path, records: list[Array], shapes: list[list[int]] | None = None) -> None:
    """A store of the layout of loaderx 1.x: shapes in the schema, and a plain version 3 header."""
    listed = [list(record.shape) for record in records] if shapes is None else shapes
    values = {
        "format": "loaderx-zrecord",
        "version": 1,
        "kind": "ragged",
        "dtype": "<i4",
        "codec": "raw",
        "shapes": listed,
        "mine": 1,
    }
    store = _core.Store.create(path, "raw", schema=msgpack.packb(values))
    store.append_list(records)
    store.close()
    with (path / "meta.zr").open("r+b") as file:
        file.seek(22)
        file.write(bytes(10))
    for name in ("sync.zr", "lock.zr", "0.sum"):
        (path / name).unlink(missing_ok=True)
