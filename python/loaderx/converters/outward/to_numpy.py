"""A store as an array, or as a `.npy` file."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import overload

import numpy as np

from loaderx.converters.formats.npyfile import MAGIC
from loaderx.converters.outward.reading import batches
from loaderx.converters.source import Array
from loaderx.dataset import DenseDataset, RaggedDataset
from loaderx.dataset.dtypes import described, opaque
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
        path: a `.npy` file to write instead, of a dense store. It appears when it is complete, and is written some 8 MiB at a
            time, or one record where that has more.

    Returns:
        Without `path`, an array of shape (n, *item_shape) of a dense store, a `Packed` of a ragged one; else the path.

    Raises:
        TypeError: no store, or a ragged one and a path.
        ValueError: a dtype that `.npy` has no name for, such as bfloat16: NumPy itself would write voids.
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
    return written(ds, Path(path), header_of(ds))


def header_of(ds: DenseDataset) -> bytes:
    """The header of the file: of version 2, or 3 where a field has a name that isn't Latin-1. ValueError for a dtype that it can't say."""
    descr = np.lib.format.dtype_to_descr(ds.dtype)
    try:
        said: object = np.lib.format.descr_to_dtype(descr)
    except (TypeError, ValueError):
        said = None
    if said != ds.dtype:
        raise ValueError(
            f"{ds.path}: a .npy file has no name for dtype {described(ds.dtype)}, and would say it is another one"
        )
    text = repr({"descr": descr, "fortran_order": False, "shape": (len(ds), *ds.item_shape)})
    try:
        version, content = 2, text.encode("latin-1")
    except UnicodeEncodeError:
        version, content = 3, text.encode()
    content += b" " * (-(12 + len(content) + 1) % 64) + b"\n"  # the array begins at a multiple of 64
    return MAGIC + bytes([version, 0]) + len(content).to_bytes(4, "little") + content


def written(ds: DenseDataset, path: Path, header: bytes) -> Path:
    """Write the file beside its place, and move it there."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, "there is something already; choose another path or remove it", str(path))
    new = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with new.open("xb") as file:
            file.write(header)
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
