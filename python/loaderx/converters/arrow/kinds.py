"""What an Arrow type is as a stream, and its arrays as records: buffers are taken as they lie, nothing is done for each record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from loaderx.converters.source import CLASSES, TEXT, Array, Values
from loaderx.dataset.packed import Packed


class RefusedError(Exception):
    """There is no stream that holds a type exactly; the message says why, and the way out."""


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
    read: Callable[[Any], Values]
    """The records of an Arrow array of the type that has no null records."""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fixed:
    """A type whose values are all of one width: (dtype, shape of one, the array of (n, *shape))."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    read: Callable[[Any], Array]


def kind_of(arrow: Any, feature: Any, utc: bool) -> Kind:
    """How the type `arrow` is stored; `feature` is what Hugging Face's metadata says of it, or None. RefusedError if it can't be."""
    import pyarrow.types as is_

    if is_array_feature(arrow, feature):
        return tensors(arrow, feature, utc)
    storage = plain(arrow)
    if is_.is_list(storage) or is_.is_large_list(storage):
        return lists(fixed(storage.value_type, utc))
    if is_text(storage):
        return Kind("ragged", np.dtype(np.uint8), None, packed_bytes, TEXT)
    if is_.is_binary(storage) or is_.is_large_binary(storage):
        return Kind("ragged", np.dtype(np.uint8), None, packed_bytes)
    found = fixed(storage, utc)
    metadata: dict[str, Any] = {}
    if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and isinstance(feature.get("names"), list):
        metadata = {CLASSES: [str(name) for name in feature["names"]]}
    if is_.is_timestamp(storage) and storage.tz is not None:
        metadata = {"time_zone": storage.tz}
    return Kind("dense", found.dtype, found.shape, found.read, metadata)


def is_text(arrow: Any) -> bool:
    """Whether the values are UTF-8."""
    import pyarrow.types as is_

    return bool(is_.is_string(arrow) or is_.is_large_string(arrow))


def plain(arrow: Any) -> Any:
    """The type of what `unwrapped` makes of an array: no extension, no dictionary, no runs, no views."""
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
    if is_.is_list_view(arrow) or is_.is_large_list_view(arrow):
        return pa.large_list(arrow.value_type)
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


def fixed(arrow: Any, utc: bool) -> Fixed:
    """A type of one width. RefusedError for any other, in a list too."""
    import pyarrow as pa
    import pyarrow.types as is_

    storage = plain(arrow)
    if is_.is_fixed_size_list(storage):
        shape: tuple[int, ...] = (storage.list_size,)
        inner = fixed(storage.value_type, utc)
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
        return of_width(np.dtype(f"<M8[{storage.unit}]"), 8)
    if is_.is_duration(storage) or is_.is_time64(storage):
        return of_width(np.dtype(f"<m8[{storage.unit}]"), 8)
    if is_.is_time32(storage):
        return of_width(np.dtype(f"<m8[{storage.unit}]"), 4)
    if str(storage) in NUMBERS:
        dtype = np.dtype(NUMBERS[str(storage)])
        return of_width(dtype, 4 if str(storage) == "date32[day]" else dtype.itemsize)
    raise RefusedError(why_not(arrow))


def why_not(arrow: Any) -> str:
    """Why a type can't be stored."""
    import pyarrow.types as is_

    if is_.is_decimal(arrow):
        return f"no dtype holds {arrow} exactly; cast it to a float, an integer or a string before"
    if is_.is_null(arrow):
        return "it has nothing but nulls"
    return f"{arrow} can't be a stream: no record of one dtype and shape holds it"


def of_width(dtype: np.dtype[Any], stored: int) -> Fixed:
    """Values of `stored` bytes in Arrow."""
    return Fixed(dtype, (), partial(numbers, dtype, stored))


def numbers(dtype: np.dtype[Any], stored: int, array: Any) -> Array:
    """The values of an array of numbers: a view of its buffer, except bools, and days and times of four bytes."""
    array = unwrapped(array)
    refuse_nulls(array)
    if len(array) == 0:
        return np.zeros(0, dtype)
    if dtype.kind == "b":
        found: Array = array.to_numpy(zero_copy_only=False)
        return found
    width = np.dtype(np.int32) if stored != dtype.itemsize else dtype
    values = np.frombuffer(array.buffers()[1], width, len(array), array.offset * width.itemsize)
    return values if width == dtype else values.astype(np.int64).view(dtype)


def refuse_nulls(array: Any) -> None:
    """InnerNullError if there is one."""
    if array.null_count:
        raise InnerNullError(int(np.flatnonzero(~valid(array))[0]))


def valid(array: Any) -> Array:
    """Which values are there, as bools."""
    found: Array = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def grids(size: int, shape: tuple[int, ...], read: Callable[[Any], Array], array: Any) -> Array:
    """The lists of `size` values each as (n, *shape, *shape of a value)."""
    array = unwrapped(array)
    refuse_nulls(array)
    try:
        values = read(array.values.slice(array.offset * size, len(array) * size))
    except InnerNullError as error:
        raise InnerNullError(error.at // max(1, size)) from None
    return values.reshape((len(array), *shape, *values.shape[1:]))


def ends_of(array: Any) -> Array:
    """The offsets of a list, string or binary array, (n + 1,): those of its first value's beginning, and all ends."""
    import pyarrow.types as is_

    arrow = array.type
    large = is_.is_large_list(arrow) or is_.is_large_string(arrow) or is_.is_large_binary(arrow)
    dtype = np.dtype(np.int64 if large else np.int32)
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(1, np.int64)
    return np.frombuffer(buffer, dtype, len(array) + 1, array.offset * dtype.itemsize).astype(np.int64)


def packed_bytes(array: Any) -> Packed:
    """Strings or binaries: the bytes as they lie."""
    array = unwrapped(array)
    ends = ends_of(array)
    buffer = array.buffers()[2]
    values = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
    return Packed(values[ends[0] : ends[-1]], ends - ends[0], None)


def lists(value: Fixed) -> Kind:
    """Lists of values of one width: ragged, one-dimensional where those are scalars."""
    return Kind("ragged", value.dtype, None, partial(packed_lists, value.shape, value.read))


def packed_lists(shape: tuple[int, ...], read: Callable[[Any], Array], array: Any) -> Packed:
    """The lists of an array, whose values have a shape."""
    array = unwrapped(array)
    ends = ends_of(array)
    try:
        values = read(array.values.slice(int(ends[0]), int(ends[-1] - ends[0])))
    except InnerNullError as error:
        at = int(np.searchsorted(ends - ends[0], error.at, side="right")) - 1
        raise InnerNullError(at) from None
    return ragged(values, ends - ends[0], shape)


def ragged(values: Array, offsets: Array, shape: tuple[int, ...]) -> Packed:
    """Records of the shape (k, *shape), k of each from its offsets."""
    if not shape:
        return Packed(values, offsets, None)
    width = int(np.prod(shape))
    return Packed(values.reshape(-1), offsets * width, [(count, *shape) for count in np.diff(offsets).tolist()])


def is_array_feature(arrow: Any, feature: Any) -> bool:
    """Whether this is an `Array2D` or the like of Hugging Face: nested lists of which the feature says the shape."""
    import pyarrow.types as is_

    name = feature.get("_type") if isinstance(feature, dict) else None
    return name in ("Array2D", "Array3D", "Array4D", "Array5D") and bool(is_.is_list(plain(arrow)))


def tensors(arrow: Any, feature: Mapping[str, Any], utc: bool) -> Kind:
    """Nested lists as records of one shape; ragged where the first dimension is open."""
    given = feature.get("shape")
    if not isinstance(given, (list, tuple)) or not all(type(n) is int for n in given[1:]):
        raise RefusedError(f"Hugging Face's features say the shape {given!r}")
    inner = plain(arrow)
    for _ in given:
        inner = plain(getattr(inner, "value_type", inner))
    value = fixed(inner, utc)
    shape = tuple(given[1:])
    nested = value.read
    for size in reversed(shape):
        nested = partial(equal_lists, size, nested)
    if given[0] is None:
        return Kind("ragged", value.dtype, None, partial(packed_lists, shape, nested))
    return Kind("dense", value.dtype, tuple(given), partial(equal_lists, given[0], nested))


def equal_lists(size: int, read: Callable[[Any], Array], array: Any) -> Array:
    """Lists that all have `size` values. ValueError where one has not."""
    array = unwrapped(array)
    refuse_nulls(array)
    ends = ends_of(array)
    wrong = np.flatnonzero(np.diff(ends) != size)
    if len(wrong):
        count = ends[wrong[0] + 1] - ends[wrong[0]]
        raise ValueError(f"expected {size} values in each list, as Hugging Face's features say, found {count}")
    try:
        values = read(array.values.slice(int(ends[0]), int(ends[-1] - ends[0])))
    except InnerNullError as error:
        raise InnerNullError(error.at // max(1, size)) from None
    return values.reshape((len(array), size, *values.shape[1:]))
