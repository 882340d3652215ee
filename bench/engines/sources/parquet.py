"""A Parquet file in row groups of some MiB: fixed-size lists or lists, and numbers; dictionaries and compression as by default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

PACKAGE = "pyarrow"
GROUP_BYTES = 8 << 20
Array = npt.NDArray[Any]


def dense(folder: Path, rows: Array, labels: Array) -> Path:
    flat = rows.reshape(len(rows), -1)
    images = pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), flat.shape[1])
    return write(folder, pa.table({"images": images, "labels": labels}))


def ragged(folder: Path, values: Array, offsets: Array) -> Path:
    tokens = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))
    return write(folder, pa.table({"tokens": tokens}))


def write(folder: Path, table: Any) -> Path:
    rows = max(1, GROUP_BYTES * len(table) // max(1, table.nbytes))
    pq.write_table(table, folder / "data.parquet", row_group_size=rows)
    return folder / "data.parquet"
