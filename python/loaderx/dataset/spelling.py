"""How `schema.msgpack` spells a dtype (`docs/format.md`): a name for most, a map for structured ones.

A spelling is one dtype's only one, so two stores have the same dtype exactly if their spellings are equal. The map is NumPy's own
dict of a structured dtype: loaderx 1.x, which knows of none of this, gives it to `numpy.dtype` and gets the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from loaderx.dataset.named import WIDTHS, dtype_named, name_of

DType = np.dtype[Any]
Spelling: TypeAlias = "str | dict[str, Any]"

# `dtype.str` of NumPy's own dtypes: byte order, kind, width, and the unit of datetimes.
PLAIN = re.compile(r"[<>|][biufcmMSUV]\d{1,10}(\[\d*[A-Za-z]{1,2}\])?")
# `dtype.str` of dtypes of `ml_dtypes`, which loaderx 1.x writes: it tells a width, but not which dtype it is.
NAMELESS = re.compile(r"[<>][VfW](\d{1,10})")
SUB_ARRAY = re.compile(r"\(((?:\d{1,10},)+|\d{1,10}(?:,\d{1,10})+)\)(.+)", re.DOTALL)
FIELD_KEYS = frozenset({"names", "formats", "offsets", "itemsize"})
MAX_DEPTH = 16
"""Structures within structures. A hostile schema must not lead to a recursion without end."""
MAX_FIELDS = 1 << 16


class NamelessError(ValueError):
    """A dtype of `ml_dtypes` whose name loaderx 1.x didn't keep."""


def spelled(dtype: DType, depth: int = 0) -> Spelling:
    """The spelling of a dtype that a store can hold. TypeError, which says why, for one that it can't."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        inner = spelled(base, depth)
        if isinstance(inner, str):
            return f"({shape[0]},){inner}" if len(shape) == 1 else f"({','.join(map(str, shape))}){inner}"
        return {"base": inner, "shape": list(shape)}
    if dtype.names is not None:
        return spelled_fields(dtype, depth)
    name = name_of(dtype)
    if name is not None:
        if not dtype.isnative:
            raise TypeError(
                f"dtype {name} in the other byte order: a store has it in one only; give dtype.newbyteorder('=')"
            )
        return name
    if not is_plain(dtype):
        raise TypeError(
            f"dtype {dtype} is neither NumPy's nor one that loaderx knows of ml_dtypes, and its name {dtype.str!r} would not bring it "
            f"back: store its bits, such as array.view(numpy.uint{8 * dtype.itemsize})"
        )
    return str(dtype.str)


def spelled_fields(dtype: DType, depth: int) -> dict[str, Any]:
    """The map of a structured dtype: NumPy's own, with titles only where a field has one."""
    assert dtype.names is not None
    assert dtype.fields is not None
    if depth >= MAX_DEPTH:
        raise TypeError(f"a structured dtype is nested more than {MAX_DEPTH} times")
    if len(dtype.names) > MAX_FIELDS:
        raise TypeError(f"a structured dtype has {len(dtype.names)} fields, and a store has at most {MAX_FIELDS}")
    fields = [dtype.fields[name] for name in dtype.names]
    for name, field in zip(dtype.names, fields, strict=True):
        if field[0].itemsize == 0:
            raise TypeError(f"field {name!r} of dtype {dtype} has no width")
    found: dict[str, Any] = {
        "names": list(dtype.names),
        "formats": [spelled(field[0], depth + 1) for field in fields],
        "offsets": [field[1] for field in fields],
        "itemsize": dtype.itemsize,
    }
    titles = [field[2] if len(field) > 2 else None for field in fields]
    if any(title is not None for title in titles):
        if not all(title is None or isinstance(title, str) for title in titles):
            raise TypeError(f"dtype {dtype} has a title that is no string")
        found["titles"] = titles
    return found


def is_plain(dtype: DType) -> bool:
    """Whether `dtype.str` names this very dtype."""
    try:
        return PLAIN.fullmatch(dtype.str) is not None and np.dtype(dtype.str) == dtype
    except (TypeError, ValueError):
        return False


def from_spelling(value: object, opaque: bool = False) -> DType:
    """The dtype that a schema spells.

    Args:
        value: what stands in the schema, which may be anything.
        opaque: a void in place of each dtype of `ml_dtypes`: for who needs widths only, and may not have the package.

    Raises:
        ValueError: no spelling.
        NamelessError: one that loaderx 1.x writes and that doesn't say which dtype it is.
        ImportError: the dtype needs `ml_dtypes`, which is not there.
    """
    try:
        if opaque:
            value = with_voids(value)
        dtype = unspelled(value)
        if dtype.itemsize == 0 or dtype.hasobject or dtype.subdtype is not None:
            raise wrong(value)
        # NumPy takes much for a dtype. What it would write back otherwise is not what was written.
        if spelled(dtype) != value:
            raise wrong(value)
    except NamelessError:
        raise
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise wrong(value) from error
    return dtype


def unspelled(value: object, depth: int = 0) -> DType:
    """The dtype; any error of NumPy's where it is none."""
    if isinstance(value, str):
        return unspelled_name(value)
    if not isinstance(value, Mapping) or depth > MAX_DEPTH:
        raise wrong(value)
    if set(value) == {"base", "shape"} and is_structure(value["base"]):
        return np.dtype((unspelled(value["base"], depth), tuple(integers(value["shape"]))))
    if set(value) - {"titles"} != FIELD_KEYS or not all(type(value[key]) is list for key in value if key != "itemsize"):
        raise wrong(value)
    count = len(value["names"])
    if count > MAX_FIELDS or any(len(value[key]) != count for key in value if key != "itemsize"):
        raise wrong(value)
    if not all(type(name) is str for name in value["names"]):
        raise wrong(value)
    fields = {
        "names": value["names"],
        "formats": [unspelled(inner, depth + 1) for inner in value["formats"]],
        "offsets": integers(value["offsets"]),
        "itemsize": integers([value["itemsize"]])[0],
    }
    if "titles" in value:
        fields["titles"] = value["titles"]
    return np.dtype(fields)  # type: ignore[call-overload, no-any-return]


def is_structure(value: object) -> bool:
    """Whether a spelling is a map of fields: sub-arrays of other things are spelled as strings, and so can't be nested without end."""
    return isinstance(value, Mapping) and "names" in value


def with_voids(value: object, depth: int = 0) -> object:
    """A spelling with a void in place of each name of `ml_dtypes`."""
    if isinstance(value, str):
        nameless = NAMELESS.fullmatch(value)
        if nameless is not None and not is_plain_name(value):
            return f"|V{nameless[1]}"
        shape, bracket, name = value.rpartition(")")
        return f"{shape}{bracket}|V{WIDTHS[name]}" if name in WIDTHS else value
    if not isinstance(value, Mapping) or depth > MAX_DEPTH:
        return value
    found = dict(value)
    if is_structure(found.get("base")):
        found["base"] = with_voids(found["base"], depth)
    if isinstance(found.get("formats"), list):
        found["formats"] = [with_voids(inner, depth + 1) for inner in found["formats"]]
    return found


def unspelled_name(name: str) -> DType:
    """The dtype of a spelling that is a string."""
    parts = SUB_ARRAY.fullmatch(name)
    if parts is not None:
        shape = tuple(int(dim) for dim in parts[1].split(",") if dim)
        return np.dtype((unspelled_name(parts[2]), shape))
    if name in WIDTHS:
        return dtype_named(name)
    if NAMELESS.fullmatch(name) is not None and not is_plain_name(name):
        raise NamelessError(
            f"{name!r} is what loaderx 1.x writes for a dtype of ml_dtypes, and doesn't say which: if you know, put its name (such as "
            "'bfloat16') there, in the key 'dtype' of this msgpack map, or read the records as bytes with loaderx.zrecord.Zrecord"
        )
    if PLAIN.fullmatch(name) is None:
        raise wrong(name)
    return np.dtype(name)


def is_plain_name(name: str) -> bool:
    """Whether NumPy has a dtype that it calls so."""
    try:
        return PLAIN.fullmatch(name) is not None and np.dtype(name).str == name
    except TypeError:
        return False


def integers(values: object) -> list[int]:
    """`values` as a list of sizes that NumPy can have."""
    if not isinstance(values, list) or not all(type(value) is int and 0 <= value < 1 << 31 for value in values):
        raise wrong(values)
    return values


def wrong(value: object) -> ValueError:
    """The error of what spells no dtype."""
    text = repr(value)
    shown = text if len(text) <= 80 else text[:77] + "..."
    return ValueError(
        f"expected the name of a fixed-width NumPy dtype, such as '<f4', or a map of fields, found {shown}"
    )
