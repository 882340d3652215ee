"""Stores of every dtype as they were first written; `python python/tests/golden_dtypes.py` adds those that are new.

What is there is never written anew: stores of that time must read as they did.
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from loaderx.dataset import DenseDataset, RaggedDataset
from support import Array

ARCHIVE = Path(__file__).with_name("golden") / "dtypes.tar.xz"

POINT = np.dtype([("x", "<f4"), ("y", ">f4")])
DTYPES: dict[str, Any] = {
    **{name: name for name in ("bool", "int8", "uint8", "float16", "complex64", "complex128")},
    **{f"{name}-{order}": order + name for order in "<>" for name in ("i2", "i4", "i8", "u2", "u4", "u8", "f4", "f8")},
    "datetime-D": "<M8[D]",
    "datetime-ns-big": ">M8[ns]",
    "timedelta-25ms": "<m8[25ms]",
    "datetime-generic": "<M8",
    "bytes": "S3",
    "text": "<U2",
    "text-big": ">U2",
    "void": "V3",
    "void2": "V2",
    "structured": [("id", "<u2"), ("point", POINT, (2,)), ("when", "<M8[s]"), ("name", "S2")],
    "structured-gaps": np.dtype([("a", "u1"), ("b", "<f8")], align=True),
    "structured-overlap": {"names": ["a", "b"], "formats": ["<u4", "<u2"], "offsets": [0, 1], "itemsize": 5},
    "structured-titles": [(("of a", "a"), "<i4"), ("b", "bool")],
    "structured-bfloat16": [("w", ml_dtypes.bfloat16), ("q", ml_dtypes.int4, (2,))],
    **{
        name: getattr(ml_dtypes, name)
        for name in (
            "bfloat16",
            "float4_e2m1fn",
            "float6_e2m3fn",
            "float6_e3m2fn",
            "float8_e3m4",
            "float8_e4m3",
            "float8_e4m3b11fnuz",
            "float8_e4m3fn",
            "float8_e4m3fnuz",
            "float8_e5m2",
            "float8_e5m2fnuz",
            "float8_e8m0fnu",
            "int2",
            "int4",
            "uint2",
            "uint4",
        )
    },
}
LOCK = "lock.zr"
"""It says which process wrote last, and needs not be there."""
SHAPES = [(2, 3), (), (0,), (4,)]


def values(name: str, shape: tuple[int, ...]) -> Array:
    """The bits 0, 1, 2, ... in as many bytes as it takes; bools and numbers of less than a byte get what they can have, text letters."""
    dtype = np.dtype(DTYPES[name])
    size = int(np.prod(shape)) * dtype.itemsize
    counted = np.arange(size, dtype=np.uint8)
    if name == "bool" or dtype.name.startswith(("int2", "int4", "uint2", "uint4", "float4", "float6", "structured")):
        counted %= 2
    if dtype.kind == "V" and dtype.names is not None:
        counted %= 2
    if dtype.kind == "U":
        counted = (65 + np.arange(size // 4)).astype(dtype.byteorder + "u4").view(np.uint8)
    if dtype.kind == "S":
        counted = np.where(counted % 3 == 2, 0, 65 + counted).astype(np.uint8)
    if dtype.kind in "mM" and size:
        counted[:8] = np.array([-(2**63)], dtype.byteorder + "i8").view(np.uint8)  # NaT
    found: Array = counted.view(dtype).reshape(shape)
    return found


def write(folder: Path, name: str) -> None:
    """A dense and a ragged store of the dtype."""
    dtype = np.dtype(DTYPES[name])
    with DenseDataset(folder / name / "dense", dtype, (3,), "raw") as dense:
        dense.append(values(name, (2, 3)))
    with RaggedDataset(folder / name / "ragged", dtype, "raw") as ragged:
        ragged.append([values(name, shape) for shape in SHAPES])


def unpack(folder: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            content = archive.extractfile(member)
            assert content is not None
            path = folder / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.read())


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if ARCHIVE.exists():
            unpack(folder)
        for name in DTYPES:
            if not (folder / name).exists():
                write(folder, name)
        ARCHIVE.parent.mkdir(exist_ok=True)
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and path.name != LOCK:
                    member = tarfile.TarInfo(str(path.relative_to(folder)))
                    member.size = path.stat().st_size
                    archive.addfile(member, io.BytesIO(path.read_bytes()))


if __name__ == "__main__":
    main()
