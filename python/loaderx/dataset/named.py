"""The dtypes of the package `ml_dtypes`, which NumPy itself can't name: bfloat16, float8, int4 and their like.

A store has them by these names. Their `dtype.str` is that of a void of as many bytes, so it says nothing. In a store they are
little-endian, each value in whole bytes, as `ml_dtypes` has them in memory.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np

DType = np.dtype[Any]

WIDTHS = {
    "bcomplex32": 4,
    "bfloat16": 2,
    "complex32": 4,
    "float4_e2m1fn": 1,
    "float6_e2m3fn": 1,
    "float6_e3m2fn": 1,
    "float8_e3m4": 1,
    "float8_e4m3": 1,
    "float8_e4m3b11fnuz": 1,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "int1": 1,
    "int2": 1,
    "int4": 1,
    "uint1": 1,
    "uint2": 1,
    "uint4": 1,
}
"""Names and the bytes of a value. A name is added here before a store may have it: readers without `ml_dtypes` need the width."""


def name_of(dtype: DType) -> str | None:
    """The name of a dtype of `ml_dtypes`, in either byte order; None for every other dtype, a void of the same width too."""
    # Whoever has such a dtype has the package imported.
    package = sys.modules.get("ml_dtypes")
    name = dtype.type.__name__
    if package is None or name not in WIDTHS or getattr(package, name, None) is not dtype.type:
        return None
    return name


def dtype_named(name: str) -> DType:
    """The dtype of a name of `WIDTHS`. ImportError where `ml_dtypes` is missing or too old to have it."""
    way_out = "or read the records as bytes, with loaderx.zrecord.Zrecord"
    try:
        package = importlib.import_module("ml_dtypes")
    except ModuleNotFoundError as error:
        if error.name != "ml_dtypes":
            raise
        raise ImportError(
            f"dtype {name!r} needs the package ml_dtypes, which is not installed: pip install ml_dtypes, {way_out}",
            name="ml_dtypes",
        ) from error
    try:
        found: DType = np.dtype(getattr(package, name))
    except AttributeError as error:
        raise ImportError(
            f"dtype {name!r} needs a newer version of the package ml_dtypes than {package.__version__}, {way_out}",
            name="ml_dtypes",
        ) from error
    return found
