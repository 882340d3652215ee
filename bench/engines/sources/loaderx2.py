"""Stores as loaderx 2.8 lays them out, raw, in one data file each: its package has the name of ours, so it can't be here."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PACKAGE = "numpy"
Array = npt.NDArray[Any]
ENTRY = np.dtype([("offset", "<u8"), ("stored", "<u4"), ("length", "<u4")])


def dense(folder: Path, rows: Array, labels: Array) -> Path:
    for name, array in (("images", rows), ("labels", labels)):
        offsets = np.arange(len(array) + 1) * array[:1].nbytes
        content = np.ascontiguousarray(array)
        store(folder / "streams" / name, content, offsets, {"dtype": array.dtype.name, "item_shape": array.shape[1:]})
    return folder / "streams"


def ragged(folder: Path, values: Array, offsets: Array) -> Path:
    """The length of each record comes before it."""
    lengths = np.diff(offsets)
    content = np.empty(len(values) + len(lengths), "<u4")
    places = offsets + np.arange(len(offsets))
    holds_items = np.ones(len(content), np.bool_)
    holds_items[places[:-1]] = False
    content[places[:-1]] = lengths
    content[holds_items] = values.view("<u4")
    store(folder / "tokens", content, places * 4, {"dtype": values.dtype.name, "ndim": 1})
    return folder / "tokens"


def store(path: Path, content: Array, offsets: Array, schema: dict[str, Any]) -> None:
    path.mkdir(parents=True)
    table = np.empty(len(offsets) - 1, ENTRY)
    table["offset"], table["stored"], table["length"] = offsets[:-1], np.diff(offsets), np.diff(offsets)
    text = json.dumps(schema).encode()
    header = struct.pack("<QHBBIQ", len(table), len(text), 1, 0, 0, content.nbytes)
    head = (header.ljust(2056, b"\0") + text).ljust(4096, b"\0")
    (path / "meta.zr").write_bytes(head + table.tobytes())
    content.tofile(path / "data_0.zr")
