"""Arrays of every dtype that a store can hold, in every memory order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from loaderx.dataset.dtypes import storable
from loaderx.dataset.named import WIDTHS
from support import Array

NAMED = [getattr(ml_dtypes, name) for name in WIDTHS if hasattr(ml_dtypes, name)]


def has_a_store(dtype: Any) -> bool:
    try:
        storable(dtype)
    except TypeError:
        return False
    return True


SCALARS = st.one_of(
    npst.boolean_dtypes(),
    npst.integer_dtypes(endianness="<"),
    npst.integer_dtypes(endianness=">"),
    npst.unsigned_integer_dtypes(endianness="?"),
    npst.floating_dtypes(endianness="?"),
    npst.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    npst.datetime64_dtypes(endianness="?"),
    npst.timedelta64_dtypes(endianness="?"),
    npst.byte_string_dtypes(min_len=1),
    npst.unicode_string_dtypes(min_len=1, endianness="?"),
    st.integers(1, 9).map(lambda width: np.dtype((np.void, width))),
    st.sampled_from(NAMED).map(np.dtype),
)


def with_gaps(dtype: Any, gap: int) -> Any:
    """The same fields, with so many bytes before each and after the last."""
    if dtype.names is None:
        return dtype
    offsets, at = [], 0
    for name in dtype.names:
        offsets.append(at + gap)
        at = offsets[-1] + dtype.fields[name][0].itemsize
    formats = [dtype.fields[name][0] for name in dtype.names]
    return np.dtype({"names": list(dtype.names), "formats": formats, "offsets": offsets, "itemsize": at + gap})


STRUCTURED = st.builds(with_gaps, npst.nested_dtypes(SCALARS, max_leaves=5), st.integers(0, 3)).filter(
    lambda dtype: dtype.names is not None and has_a_store(dtype)
)
DTYPES = st.one_of(SCALARS, STRUCTURED)


def random_array(dtype: Any, shape: tuple[int, ...], seed: int) -> Array:
    """Random bits, between the fields too, but where bits have rules: text, bools, numbers of less than a byte.

    Times begin with NaT and the extremes, those in structures too.
    """
    return filled(dtype, shape, np.random.default_rng(seed))


EXTREMES = [-(2**63), 1 - 2**63, 2**63 - 1]
"""NaT, the first and the last time."""


def filled(dtype: Any, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    count = int(np.prod(shape))
    if dtype.subdtype is not None:
        return filled(dtype.subdtype[0], shape + dtype.subdtype[1], rng)
    if dtype.kind == "U":
        letters = rng.integers(32, 96, count * dtype.itemsize // 4).astype(dtype.byteorder + "u4")
        text: Array = letters.view(dtype).reshape(shape)
        return text
    if dtype.type in NAMED and dtype.itemsize == 1:
        small: Array = np.asarray(rng.integers(0, 2, shape)).astype(dtype)
        return small
    found: Array = (
        rng.integers(0, 2 if dtype.kind == "b" else 256, count * dtype.itemsize, np.uint8).view(dtype).reshape(shape)
    )
    if dtype.kind in "mM":
        first = found.reshape(-1)[: len(EXTREMES)]
        first.view(dtype.byteorder + "i8")[...] = EXTREMES[: len(first)]
    for name in dtype.names or ():
        found[name] = filled(dtype.fields[name][0], shape, rng)
    return found


def strided(array: Array) -> Array:
    padded = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)
    whole(padded)[::2] = whole(array)
    return padded[::2]


def unaligned(array: Array) -> Array:
    buffer = np.zeros(array.nbytes + 1, np.uint8)
    found: Array = buffer[1:].view(array.dtype)[: array.size].reshape(array.shape)
    whole(found)[...] = whole(array)
    return found


def read_only(array: Array) -> Array:
    frozen: Array = whole(array).copy().view(array.dtype)
    frozen.flags.writeable = False
    return frozen


def whole(array: Array) -> Array:
    """A structured array as voids: NumPy copies those whole, but of a structure the fields only."""
    return array if array.dtype.names is None else array.view(f"V{array.dtype.itemsize}")


def bits(array: Array) -> bytes:
    return np.ascontiguousarray(whole(array)).tobytes()


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "C": lambda array: array,
    "Fortran": lambda array: np.asfortranarray(whole(array)).view(array.dtype) if array.ndim else array,
    "strided": strided,
    "reversed": lambda array: whole(array)[::-1].copy().view(array.dtype)[::-1],
    "transposed": lambda array: whole(array).T.copy().view(array.dtype).T,
    "broadcast": lambda array: np.broadcast_to(array[:1], array.shape),
    "unaligned": unaligned,
    "read-only": read_only,
    "of a subclass": lambda array: (
        array.view(np.recarray) if array.dtype.names else array.view(type("Mine", (np.ndarray,), {}))
    ),
}
