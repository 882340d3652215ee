"""A store as an array, or as a `.npy` file."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, overload

import numpy as np

from loaderx.converters.outward.reading import batches
from loaderx.converters.source import Array
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.dataset.dtypes import described, opaque
from loaderx.dataset.named import name_of
from loaderx.dataset.packed import Packed
from loaderx.zrecord import PathLike


@overload
def to_numpy(ds: DenseDataset) -> Array: ...
@overload
def to_numpy(ds: RaggedDataset) -> Packed: ...
@overload
def to_numpy(ds: DenseDataset, path: PathLike) -> Path: ...
def to_numpy(ds: DenseDataset | RaggedDataset, path: PathLike | None = None) -> Array | Packed | Path:
    """All records of a store.

    Args:
        ds: the store.
        path: a `.npy` file to write instead, of a dense store. It appears when it is complete, and takes a few MiB of memory.

    Returns:
        Without `path`, an array of shape (n, *item_shape) of a dense store, a `Packed` of a ragged one; else the path.

    Raises:
        TypeError: no store, or a ragged one and a path.
        ValueError: a dtype that `.npy` has no name for, such as bfloat16: NumPy would write voids.
        FileExistsError: there is something at `path`.
        ZrecordError, OSError: the store can't be read, or the file not be written.
    """
    if not isinstance(ds, (DenseDataset, RaggedDataset)):
        raise TypeError(f"expected a DenseDataset or a RaggedDataset, found {type(ds).__name__}")
    if path is None:
        return ds.packed(slice(None)) if isinstance(ds, RaggedDataset) else ds[:]
    if isinstance(ds, RaggedDataset):
        raise TypeError(
            f"{ds.path}: a .npy file has one array, and the records of a ragged store have shapes of their own"
        )
    if name_of(ds.dtype) is not None:
        raise ValueError(
            f"{ds.path}: a .npy file has no name for dtype {described(ds.dtype)}, and would say it is void"
        )
    return written(ds, Path(path))


def written(ds: DenseDataset, path: Path) -> Path:
    """Write the file beside its place, and move it there."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "there is something already; choose another path or remove it", str(path))
    new = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with new.open("xb") as file:
            header: dict[str, Any] = {
                "descr": np.lib.format.dtype_to_descr(ds.dtype),
                "fortran_order": False,
                "shape": (len(ds), *ds.item_shape),
            }
            np.lib.format.write_array_header_2_0(file, header)
            for _, batch in batches({"": ds}):
                values = batch[""]
                assert isinstance(values, np.ndarray)
                if values.size:
                    file.write(memoryview(opaque(values).reshape(-1).view(np.uint8)))  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)
    except BaseException:
        with suppress(FileNotFoundError):
            new.unlink()
        raise
    return path
