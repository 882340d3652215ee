"""Lance: a column of lists; a batch is a list of arrays over the taken column."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

PACKAGE = "pylance"
Array = npt.NDArray[Any]


def write(path: Path, records: tuple[Array, Array], codec: str) -> None:
    values, offsets = (np.ascontiguousarray(part) for part in records)
    column = pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))
    lance.write_dataset(pa.table({"record": column}), str(path))


def open_store(path: Path) -> Any:
    return lance.dataset(str(path))


def gather(store: Any, indices: Array) -> list[Array]:
    column = store.take(indices).column("record").combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0)
    values, offsets = column.values.to_numpy(), column.offsets.to_numpy()
    return [values[start:end] for start, end in itertools.pairwise(offsets.tolist())]


def close(store: Any) -> None:
    pass
