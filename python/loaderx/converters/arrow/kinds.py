"""What an Arrow type is as a stream, and its arrays as records: buffers are taken as they lie, nothing is done for each record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from loaderx.converters.source import CLASSES, TEXT, Array, Values
from loaderx.dataset.packed import Packed


class RefusedError(Exception):
    """There is no stream that holds a type exactly; the message says why, and the way out."""


Needed: TypeAlias = "Array | None"
"""Which values of an array will be used, as bools; None for all."""


class InnerNullError(Exception):
    """There is a null inside of a record, in the array's item `at`."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at


@dataclass(frozen=True)
class Kind:
    """How a type is stored."""

    kind: Literal["dense", "ragged"]
    dtype: np.dtype[Any]
    item_shape: tuple[int, ...] | None
    read: Callable[[Any, Needed], Values]
    """The records of an Arrow array of the type; those that are not needed are unspecified if dense, else empty."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


Reads: TypeAlias = Callable[[Any, Needed], Array]
"""The values of an Arrow array, the first axis first. InnerNullError where one that is needed is null."""


@dataclass(frozen=True)
class Fixed:
    """A type whose values are all of one width: (dtype, shape of one, the array of (n, *shape))."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    read: Reads


def kind_of(arrow: Any, feature: Any, utc: bool, nat: bool = False) -> Kind:
    """How the type `arrow` is stored. RefusedError if it can't be.

    `feature` is what Hugging Face's metadata says of it, or None. With `nat`, times that are null are NaT, inside of records too.
    """
    import pyarrow.types as is_

    if is_array_feature(arrow, feature):
        return tensors(arrow, feature, utc, nat)
    storage = plain(arrow)
    if is_list(storage):
        value = fixed(storage.value_type, utc, nat)
        return Kind("ragged", value.dtype, None, partial(packed_lists, value.shape, value.read))
    if is_text(storage):
        return Kind("ragged", np.dtype(np.uint8), None, packed_bytes, TEXT)
    if is_.is_binary(storage) or is_.is_large_binary(storage):
        return Kind("ragged", np.dtype(np.uint8), None, packed_bytes)
    found = fixed(arrow, utc, nat)
    metadata: dict[str, Any] = {}
    if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list):
        metadata = {CLASSES: [str(name) for name in feature["names"]]}
    if is_.is_timestamp(storage) and storage.tz is not None:
        metadata = {"time_zone": storage.tz}
    return Kind("dense", found.dtype, found.shape, found.read, metadata)


def is_list(arrow: Any) -> bool:
    """Whether the values are lists of any length."""
    import pyarrow.types as is_

    of_offsets = is_.is_list(arrow) or is_.is_large_list(arrow)
    return bool(of_offsets or is_.is_list_view(arrow) or is_.is_large_list_view(arrow))


def is_text(arrow: Any) -> bool:
    """Whether the values are UTF-8."""
    import pyarrow.types as is_

    return bool(is_.is_string(arrow) or is_.is_large_string(arrow))


def plain(arrow: Any) -> Any:
    """The type of what `unwrapped` makes of an array: no extension, no dictionary, no runs, no views of bytes."""
    import pyarrow as pa
    import pyarrow.types as is_

    if isinstance(arrow, pa.BaseExtensionType):
        return plain(arrow.storage_type)
    if is_.is_dictionary(arrow) or is_.is_run_end_encoded(arrow):
        return plain(arrow.value_type)
    if is_.is_string_view(arrow):
        return pa.large_string()
    if is_.is_binary_view(arrow):
        return pa.large_binary()
    return arrow


def unwrapped(array: Any) -> Any:
    """An array of the plain type of its own."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as is_

    arrow = array.type
    if isinstance(arrow, pa.BaseExtensionType):
        return unwrapped(array.storage)
    if is_.is_dictionary(arrow):
        return unwrapped(array.dictionary_decode())
    if is_.is_run_end_encoded(arrow):
        return unwrapped(pc.run_end_decode(array))
    target = plain(arrow)
    return array if target.equals(arrow) else array.cast(target)


NUMBERS = {
    "bool": "?",
    "halffloat": "<f2",
    "float": "<f4",
    "double": "<f8",
    "date32[day]": "<M8[D]",
    "date64[ms]": "<M8[ms]",
} | {f"{sign}int{bits}": f"<{sign or 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def fixed(arrow: Any, utc: bool, nat: bool) -> Fixed:
    """A type of one width. RefusedError for any other, in a list too."""
    import pyarrow as pa
    import pyarrow.types as is_

    storage = plain(arrow)
    if is_.is_fixed_size_list(storage):
        shape: tuple[int, ...] = (storage.list_size,)
        inner = fixed(storage.value_type, utc, nat)
        if isinstance(arrow, pa.FixedShapeTensorType):
            if arrow.permutation not in (None, list(range(len(arrow.shape)))):
                raise RefusedError(f"{arrow} is stored in another order than that of its dimensions")
            shape = tuple(arrow.shape)
        return Fixed(inner.dtype, shape + inner.shape, partial(grids, storage.list_size, shape, inner.read))
    if is_.is_fixed_size_binary(storage):
        if storage.byte_width == 0:
            raise RefusedError("binary values of no bytes can't be stored")
        return of_width(np.dtype((np.void, storage.byte_width)), storage.byte_width)
    if is_.is_timestamp(storage) and storage.tz is not None and not utc:
        raise RefusedError(
            f"times of the zone {storage.tz!r}; give utc=True to store them in UTC, with the zone's name as metadata"
        )
    if is_.is_timestamp(storage):
        return of_width(np.dtype(f"<M8[{storage.unit}]"), 8, nat)
    if is_.is_duration(storage) or is_.is_time64(storage):
        return of_width(np.dtype(f"<m8[{storage.unit}]"), 8, nat)
    if is_.is_time32(storage):
        return of_width(np.dtype(f"<m8[{storage.unit}]"), 4, nat)
    if str(storage) in NUMBERS:
        dtype = np.dtype(NUMBERS[str(storage)])
        return of_width(dtype, 4 if str(storage) == "date32[day]" else dtype.itemsize, nat)
    raise RefusedError(why_not(arrow))


def why_not(arrow: Any) -> str:
    """Why a type can't be stored."""
    import pyarrow.types as is_

    if is_.is_decimal(arrow):
        return f"no dtype holds {arrow} exactly; cast it to a float, an integer or a string before"
    if is_.is_null(arrow):
        return "it has nothing but nulls"
    return f"{arrow} can't be a stream: no record of one dtype and shape holds it"


def of_width(dtype: np.dtype[Any], stored: int, nat: bool = False) -> Fixed:
    """Values of `stored` bytes in Arrow."""
    read = partial(numbers, dtype, stored)
    return Fixed(dtype, (), partial(times, read) if nat and dtype.kind in "mM" else partial(without_nulls, read))


def without_nulls(read: Callable[[Any], Array], array: Any, needed: Needed) -> Array:
    """The values, of which none that is needed may be null."""
    array = unwrapped(array)
    refuse_nulls(array, needed)
    return read(array)


def times(read: Callable[[Any], Array], array: Any, needed: Needed) -> Array:
    """The values, NaT where they are null."""
    array = unwrapped(array)
    values = read(array)
    if array.null_count:
        values = values.copy()
        values[~valid(array)] = np.array("NaT", values.dtype)
    return values


def numbers(dtype: np.dtype[Any], stored: int, array: Any) -> Array:
    """The values of a plain array of numbers: a view of its buffer, except bools, and days and times of four bytes.

    Those of nulls are unspecified.
    """
    count, offset = len(array), array.offset
    buffer = array.buffers()[1]
    if count == 0 or buffer is None:
        return np.zeros(count, dtype)
    if dtype.kind == "b":
        first = offset // 8
        bits = np.frombuffer(buffer, np.uint8, (offset + count + 7) // 8 - first, first)
        return np.unpackbits(bits, bitorder="little")[offset % 8 :][:count].view(bool)
    width = np.dtype(np.int32) if stored != dtype.itemsize else dtype
    values = np.frombuffer(buffer, width, count, offset * width.itemsize)
    return values if width == dtype else values.astype(np.int64).view(dtype)


def refuse_nulls(array: Any, needed: Needed) -> None:
    """InnerNullError if there is one among the values that are needed."""
    if array.null_count:
        missing = ~valid(array) if needed is None else ~valid(array) & needed
        if missing.any():
            raise InnerNullError(int(np.flatnonzero(missing)[0]))


def valid(array: Any) -> Array:
    """Which values are there, as bools."""
    found: Array = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def grids(size: int, shape: tuple[int, ...], read: Reads, array: Any, needed: Needed) -> Array:
    """The lists of `size` values each as (n, *shape, *shape of a value)."""
    array = unwrapped(array)
    refuse_nulls(array, needed)
    inner = None if needed is None else np.repeat(needed, size)
    try:
        values = read(array.values.slice(array.offset * size, len(array) * size), inner)
    except InnerNullError as error:
        raise InnerNullError(error.at // max(1, size)) from None
    return values.reshape((len(array), *shape, *values.shape[1:]))


def spans(array: Any) -> tuple[Array, Array]:
    """Where the values of each list, string or binary begin, and how many they are; of a null, none."""
    import pyarrow.types as is_

    arrow, count = array.type, len(array)
    viewed = is_.is_list_view(arrow) or is_.is_large_list_view(arrow)
    large = is_.is_large_list(arrow) or is_.is_large_string(arrow) or is_.is_large_binary(arrow)
    dtype = np.dtype(np.int64 if large or is_.is_large_list_view(arrow) else np.int32)
    buffers = array.buffers()
    if count == 0 or buffers[1] is None:
        return np.zeros(count, np.int64), np.zeros(count, np.int64)
    at = array.offset * dtype.itemsize
    if viewed:
        starts = np.frombuffer(buffers[1], dtype, count, at).astype(np.int64)
        lengths = np.frombuffer(buffers[2], dtype, count, at).astype(np.int64)
    else:
        ends = np.frombuffer(buffers[1], dtype, count + 1, at).astype(np.int64)
        starts, lengths = ends[:-1], np.diff(ends)
    if array.null_count:
        lengths = np.where(valid(array), lengths, 0)
    return starts, lengths


def gathered(starts: Array, lengths: Array, take: Callable[[int, int, Needed], Array]) -> tuple[Array, Array]:
    """The values of all spans one after another, and their offsets; `take` gives those of a range, of which some are not needed."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    some = np.flatnonzero(lengths)
    if len(some) == 0:
        return take(0, 0, None), offsets
    ends = starts[some] + lengths[some]
    low, high = int(starts[some].min()), int(ends.max())
    if (starts[some][1:] == ends[:-1]).all():
        try:
            return take(low, high, None), offsets
        except InnerNullError as error:
            raise InnerNullError(owner(offsets, error.at)) from None
    index = np.repeat(starts - offsets[:-1] - low, lengths) + np.arange(offsets[-1])
    used = np.zeros(high - low, bool)
    used[index] = True
    try:
        return take(low, high, used)[index], offsets
    except InnerNullError as error:
        raise InnerNullError(owner(offsets, int(np.flatnonzero(index == error.at)[0]))) from None


def owner(offsets: Array, at: int) -> int:
    """The record that has the item `at`."""
    return int(np.searchsorted(offsets, at, side="right")) - 1


def packed_bytes(array: Any, needed: Needed) -> Packed:
    """Strings or binaries: the bytes as they lie."""
    array = unwrapped(array)
    refuse_nulls(array, needed)
    buffer = array.buffers()[2]
    values = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
    return Packed(*gathered(*spans(array), lambda low, high, used: values[low:high]), None)


def flat(read: Reads, array: Any, needed: Needed) -> tuple[Array, Array]:
    """The values of all lists one after another, and their offsets."""
    array = unwrapped(array)
    refuse_nulls(array, needed)
    return gathered(*spans(array), lambda low, high, used: read(array.values.slice(low, high - low), used))


def packed_lists(shape: tuple[int, ...], read: Reads, array: Any, needed: Needed) -> Packed:
    """Lists of values that have a shape; one-dimensional where those are scalars."""
    values, offsets = flat(read, array, needed)
    if not shape:
        return Packed(values, offsets, None)
    width = int(np.prod(shape))
    return Packed(values.reshape(-1), offsets * width, [(count, *shape) for count in np.diff(offsets).tolist()])


def equal_lists(size: int, read: Reads, array: Any, needed: Needed) -> Array:
    """Lists that all have `size` values, as (n, size, *shape of a value). ValueError where one has not."""
    values, offsets = flat(read, array, needed)
    lengths = np.diff(offsets)
    wanted = np.ones(len(lengths), bool) if needed is None else needed
    wrong = np.flatnonzero((lengths != size) & wanted)
    if len(wrong):
        raise ValueError(
            f"expected {size} values in each list, as Hugging Face's features say, found {lengths[wrong[0]]}"
        )
    full = np.zeros((len(lengths), size, *values.shape[1:]), values.dtype)
    full[wanted] = values[np.repeat(wanted, lengths)].reshape(-1, size, *values.shape[1:])
    return full


def is_array_feature(arrow: Any, feature: Any) -> bool:
    """Whether this is an `Array2D` or the like of Hugging Face: nested lists of which the feature says the shape."""
    import pyarrow.types as is_

    name = feature.get("_type") if isinstance(feature, dict) else None
    return name in ("Array2D", "Array3D", "Array4D", "Array5D") and bool(is_.is_list(plain(arrow)))


def tensors(arrow: Any, feature: Mapping[str, Any], utc: bool, nat: bool) -> Kind:
    """Nested lists as records of one shape; ragged where the first dimension is open."""
    given = feature.get("shape")
    if not isinstance(given, (list, tuple)) or not given or not all(type(n) is int for n in given[1:]):
        raise RefusedError(f"Hugging Face's features say the shape {given!r}")
    inner = plain(arrow)
    for _ in given:
        inner = plain(getattr(inner, "value_type", inner))
    value = fixed(inner, utc, nat)
    shape = tuple(given[1:])
    nested: Reads = value.read
    for size in reversed(shape):
        nested = partial(equal_lists, size, nested)
    if given[0] is None:
        return Kind("ragged", value.dtype, None, partial(packed_lists, shape, nested))
    return Kind("dense", value.dtype, tuple(given), partial(equal_lists, given[0], nested))
