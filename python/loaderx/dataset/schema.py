"""What the records of a store mean: `schema.msgpack`, described in `docs/format.md`.

A schema that comes from a file may hold anything; what does not fit is a CorruptStoreError that names path, found and expected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import msgpack

from loaderx._core import read_small_file
from loaderx.arguments import integer
from loaderx.dataset.dtypes import described
from loaderx.dataset.spelling import DType, NamelessError, from_spelling, spelled
from loaderx.zrecord import CODECS, MAX_RECORD_LEN, CorruptStoreError, ZrecordError

FILE = "schema.msgpack"
FORMAT = "loaderx-zrecord"
VERSION = 1
SIZE_LIMIT = 1 << 28
MAX_ITEM_RANK = 31
"""NumPy 1.26 has at most 32 dimensions, and a batch has one more than its items."""
CORE_KEYS = ("format", "version", "kind", "dtype", "codec", "item_shape", "shapes")

Kind: TypeAlias = Literal["dense", "ragged"]
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Schema:
    """One store's schema.

    `item_shape` is that of a dense store. `shapes` are those of a ragged store of loaderx 1.x, one a record; None in stores that
    keep them in `.shape` files. `metadata` are the user's own keys.
    """

    kind: Kind
    dtype: DType
    codec: str
    item_shape: Shape | None = None
    shapes: tuple[Shape, ...] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def without_shapes(self) -> Schema:
        """The schema of the same store once its shapes lie in `.shape` files."""
        return replace(self, shapes=None)


def encode(schema: Schema) -> bytes:
    """The content of `schema.msgpack`. TypeError for metadata that msgpack can't hold, ValueError if it is too large."""
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "kind": schema.kind,
        "dtype": spelled(schema.dtype),
        "codec": schema.codec,
    }
    if schema.item_shape is not None:
        content["item_shape"] = list(schema.item_shape)
    if schema.shapes is not None:
        content["shapes"] = [list(shape) for shape in schema.shapes]
    packed = pack(content | dict(schema.metadata))
    if len(packed) > SIZE_LIMIT:
        raise ValueError(f"schema: expected at most {SIZE_LIMIT} bytes, found {len(packed)}")
    return packed


def pack(value: object) -> bytes:
    """`value` as msgpack. TypeError if it can't be."""
    try:
        packed: bytes = msgpack.packb(value)
        # What can't be read back (keys that are lists, say) must not get into a file.
        msgpack.unpackb(packed, strict_map_key=False)
    except Exception as error:  # msgpack raises its own classes too
        raise TypeError(f"schema: a value can't be stored as msgpack: {error}") from error
    return packed


def checked_metadata(metadata: object) -> dict[str, Any]:
    """The user's own keys for a new store. TypeError for no mapping of strings, ValueError for a key that loaderx sets."""
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise TypeError(f"schema: expected a mapping of your own keys, found {type(metadata).__name__}")
    for key in metadata:
        if not isinstance(key, str):
            raise TypeError(f"schema: expected string keys, found {key!r}")
        if key in CORE_KEYS:
            raise ValueError(f"schema: the key {key!r} is set by loaderx; choose another name")
    return dict(metadata)


def checked_item_shape(shape: object, dtype: DType) -> Shape:
    """An item shape as a tuple of ints. TypeError for what is no shape, ValueError for one that no record can have."""
    if isinstance(shape, (str, bytes)) or not hasattr(shape, "__iter__"):
        raise TypeError(f"item_shape: expected a tuple of integers, found {shape!r}")
    dims = tuple(integer(dim, "item_shape") for dim in shape)
    if len(dims) > MAX_ITEM_RANK:
        raise ValueError(f"item_shape: expected at most {MAX_ITEM_RANK} dimensions, found {len(dims)}")
    # Zero dimensions don't excuse the others: NumPy bounds the product of the non-zero ones too.
    size = math.prod(dim for dim in dims if dim) * dtype.itemsize
    if size > MAX_RECORD_LEN:
        raise ValueError(
            f"item_shape {dims} of {described(dtype)}: a record has at most {MAX_RECORD_LEN} bytes, and this is {size}"
        )
    return dims


def read(path: Path, opaque: bool = False) -> Schema:
    """The schema of the store at `path`; `opaque` as for `from_spelling`.

    CorruptStoreError if it is missing or not one, OSError if it can't be read, ImportError if its dtype needs a package that isn't there.
    """
    file = path / FILE
    try:
        size = file.stat().st_size
        if size > SIZE_LIMIT:
            broken(file, f"at most {SIZE_LIMIT} bytes", f"{size} bytes")
        content = read_small_file(file)
    except FileNotFoundError as error:
        raise CorruptStoreError(
            f"{file} is missing: a dataset has a schema. A store of plain byte records is opened with loaderx.zrecord.Zrecord"
        ) from error
    return decode(content, file, opaque)


def decode(content: bytes, file: Path, opaque: bool = False) -> Schema:
    """The schema that `content` holds; `file` is named in errors."""
    values = unpack(content, file)
    if values.get("format") != FORMAT:
        broken(file, f"format = {FORMAT!r}", f"format = {shown(values.get('format'))}")
    version = typed(values, "version", int, file)
    if version != VERSION:
        raise ZrecordError(f"{file}: this release reads schema version {VERSION}, found version {version}")
    kind = typed(values, "kind", str, file)
    if kind not in ("dense", "ragged"):
        broken(file, "kind = 'dense' or 'ragged'", f"kind = {shown(kind)}")
    codec = typed(values, "codec", str, file)
    if codec not in CODECS:
        broken(file, f"codec = one of {', '.join(CODECS)}", f"codec = {shown(codec)}")
    try:
        dtype = from_spelling(typed(values, "dtype", (str, dict), file), opaque)
    except NamelessError as error:
        raise ZrecordError(f"{file}: dtype: {error}") from error
    except ValueError as error:
        raise CorruptStoreError(f"{file}: dtype: {error}") from error
    except ImportError as error:
        raise ImportError(f"{file}: {error}", name=error.name) from error
    metadata = {key: value for key, value in values.items() if key not in CORE_KEYS}
    if kind == "dense":
        return Schema("dense", dtype, codec, item_shape=stored_item_shape(values, dtype, file), metadata=metadata)
    shapes = stored_shapes(values, file) if "shapes" in values else None
    return Schema("ragged", dtype, codec, shapes=shapes, metadata=metadata)


def unpack(content: bytes, file: Path) -> dict[str, Any]:
    """The map that `content` holds. msgpack bounds every allocation by the length of `content`."""
    try:
        values = msgpack.unpackb(content, strict_map_key=False)
    except Exception as error:  # ValueError, msgpack's own classes, and more from broken extension types
        raise CorruptStoreError(
            f"{file}: expected one msgpack map, found {len(content)} bytes that are none: {error}"
        ) from error
    if not isinstance(values, dict):
        broken(file, "a msgpack map", type(values).__name__)
    for key in values:
        if not isinstance(key, str):
            broken(file, "string keys", f"the key {shown(key)}")
    return values


def typed(values: Mapping[str, Any], key: str, kind: type | tuple[type, ...], file: Path) -> Any:
    """The value of a key that must be there."""
    if key not in values:
        broken(file, f"the key {key!r}", f"only {shown(sorted(values))}")
    value = values[key]
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
        broken(file, f"{key} as {kinds}", f"{key} = {shown(value)}")
    return value


def stored_item_shape(values: Mapping[str, Any], dtype: DType, file: Path) -> Shape:
    """The item shape of a dense store."""
    try:
        return checked_item_shape(typed(values, "item_shape", list, file), dtype)
    except (TypeError, ValueError) as error:
        raise CorruptStoreError(f"{file}: {error}") from error


def stored_shapes(values: Mapping[str, Any], file: Path) -> tuple[Shape, ...]:
    """One shape a record, as stores of loaderx 1.x keep them. Whether they fit the records is checked at each read."""
    shapes = typed(values, "shapes", list, file)
    for record, shape in enumerate(shapes):
        if not isinstance(shape, list) or not all(type(dim) is int and 0 <= dim <= MAX_RECORD_LEN for dim in shape):
            broken(file, f"shapes[{record}] as a list of dimensions", shown(shape))
    return tuple(map(tuple, shapes))


def broken(file: Path, expected: str, found: str) -> NoReturn:
    """Raise the error of a schema that is none."""
    raise CorruptStoreError(f"{file}: expected {expected}, found {found}")


def shown(value: object) -> str:
    """`value` for an error message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
