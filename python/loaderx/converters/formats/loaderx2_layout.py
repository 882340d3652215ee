"""The container of loaderx 2.8: bytes to numbers, and what can't be right about them. No I/O.

`docs/exchange.md` has the layout. It has no magic number, no version and no checksums, so all of it is checked against each other.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from loaderx._core import MAX_RANK, MAX_RECORD_LEN
from loaderx.dataset.named import WIDTHS, dtype_named
from loaderx.dataset.schema import Shape, checked_item_shape
from loaderx.generations.layout import FRAME_OVERHEAD, BadEntry

META = "meta.zr"
DICTIONARY = "dict.zr"
Codec: TypeAlias = Literal["raw", "zstd", "zstd_dict"]
HEAD = struct.Struct("<QHBBI255Q")
"""Records, bytes of the schema, data files, codec, zero, and how long each data file is."""
TABLE_AT = 4096
ENTRY = np.dtype([("offset", "<u8"), ("stored", "<u4"), ("length", "<u4")])
DIM = np.dtype("<u4")
"""A ragged record begins with its shape, in these."""

CODECS: tuple[Codec, ...] = ("raw", "zstd", "zstd_dict")
MOST_SHRUNK = 1 << 16
"""No zstd frame holds more bytes for each of its own: a block takes four at least, and holds 128 KiB at most."""

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
PLAIN = ["bool", *INTEGERS, "float16", "float32", "float64", "complex64", "complex128"]
"""The names of NumPy's dtypes that it has."""

Table = npt.NDArray[np.void]
"""Entries, dtype ENTRY, shape (n,)."""
DType = np.dtype[Any]


@dataclass(frozen=True)
class Header:
    """What `meta.zr` says before its table."""

    count: int
    """The number of records."""
    codec: Codec
    ends: tuple[int, ...]
    """How many bytes each data file has. Record i lies in file i modulo their number."""
    dtype: DType
    item_shape: Shape | None
    """Of a dense store."""
    rank: int
    """The number of dimensions of the records."""

    @property
    def prefix(self) -> int:
        """How many bytes of a record come before its items: the shape of a ragged one."""
        return 0 if self.item_shape is not None else self.rank * DIM.itemsize

    def shards(self, first: int, count: int) -> npt.NDArray[np.int64]:
        """The data files in which `count` records from `first` on lie, shape (count,)."""
        return (first + np.arange(count, dtype=np.int64)) % len(self.ends)


def decode(content: bytes) -> Header:
    """The header. ValueError that says what about the bytes can't be right, ImportError for a dtype of `ml_dtypes` without that."""
    if len(content) < TABLE_AT:
        raise ValueError(f"expected a header of {TABLE_AT} bytes, found {len(content)}")
    count, length, files, codec, zero, *ends = HEAD.unpack_from(content)
    if codec >= len(CODECS) or not files or zero or any(ends[files:]) or length > TABLE_AT - HEAD.size:
        raise ValueError(
            f"expected the header of loaderx 2.8, found codec {codec}, {files} data files, {length} bytes of schema, "
            f"and {zero} in reserved bytes"
        )
    schema = parsed(content[HEAD.size : HEAD.size + length])
    dtype = dtype_of(schema.get("dtype"))
    item_shape, rank = shape_of(schema, dtype)
    return Header(count, CODECS[codec], tuple(ends[:files]), dtype, item_shape, rank)


def parsed(content: bytes) -> Mapping[str, Any]:
    """The schema as a map."""
    try:
        schema = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected a schema in JSON, found {content[:60]!r}: {error}") from error
    if not isinstance(schema, dict):
        raise ValueError(f"expected a map as schema, found {content[:60]!r}")
    return schema


def dtype_of(name: object) -> DType:
    """The dtype of a name."""
    if isinstance(name, str) and name in PLAIN:
        return np.dtype(name)
    if isinstance(name, str) and name in WIDTHS:
        return dtype_named(name)
    raise ValueError(f"schema: expected the name of a dtype, such as 'float32', found {name!r}")


def shape_of(schema: Mapping[str, Any], dtype: DType) -> tuple[Shape | None, int]:
    """The item shape of a dense store, or None for a ragged one; and the number of dimensions."""
    if set(schema) == {"dtype", "item_shape"}:
        try:
            shape = checked_item_shape(schema["item_shape"], dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(f"schema: {error}") from error
        return shape, len(shape)
    rank = schema.get("ndim")
    if set(schema) != {"dtype", "ndim"} or type(rank) is not int or rank < 1:
        raise ValueError(f"schema: expected 'dtype', and 'item_shape' or 'ndim', found {dict(schema)}")
    if rank > MAX_RANK:
        raise ValueError(f"its records have {rank} dimensions, and those of a store have at most {MAX_RANK}")
    return None, rank


def check_entries(header: Header, first: int, entries: Table, before: npt.NDArray[np.uint64]) -> None:
    """Whether each entry can be that of a record, `first` being the number of the first one. BadEntry for the first that can't.

    `before`, shape (data files,), is where records end that come before these; in the end it is where these end.
    """
    stored, length = entries["stored"].astype(np.int64), entries["length"].astype(np.int64)
    items = length - header.prefix
    # Before all else, since the places are added up then.
    refuse_where(entries, "its end within its data file", outside(header, first, entries))
    refuse_where(entries, "a place behind the record before it", overlapping(header, first, entries, before))
    refuse_where(entries, f"at most {MAX_RECORD_LEN} bytes", items > MAX_RECORD_LEN)
    width = header.dtype.itemsize
    if header.item_shape is not None:
        size = math.prod(header.item_shape) * width
        refuse_where(entries, f"{size} bytes, as the schema has it", length != size)
    else:
        expected = f"a shape of {header.prefix} bytes, and items of {width}"
        refuse_where(entries, expected, (items < 0) | (items % width != 0))
    if header.codec == "raw":
        refuse_where(entries, "as many bytes stored as it is long, being raw", stored != length)
    else:
        most = length + length // 128 + FRAME_OVERHEAD
        refuse_where(entries, "what zstd can have made of it", (stored > most) | (length > stored * MOST_SHRUNK))


def refuse_where(entries: Table, expected: str, bad: npt.NDArray[np.bool_]) -> None:
    """BadEntry for the first one that is bad."""
    if bad.any():
        at = int(np.argmax(bad))
        found = ", ".join(f"{name} {entries[name][at]}" for name in ENTRY.names or ())
        raise BadEntry(at, f"expected {expected}, found {found}")


def outside(header: Header, first: int, entries: Table) -> npt.NDArray[np.bool_]:
    """Which of the entries reach over the end of their data files."""
    ends = np.array(header.ends, np.uint64)[header.shards(first, len(entries))]
    room = ends - np.minimum(ends, entries["stored"])
    bad: npt.NDArray[np.bool_] = (entries["stored"] > ends) | (entries["offset"] > room)
    return bad


def overlapping(header: Header, first: int, entries: Table, before: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Which of the entries begin before the end of the one before in the same data file; `before` as for `check_entries`."""
    bad = np.zeros(len(entries), np.bool_)
    ends = entries["offset"] + entries["stored"]
    files = len(header.ends)
    for shard in range(files):
        mine = slice((shard - first) % files, None, files)
        mine_ends = ends[mine]
        if len(mine_ends):
            bad[mine] = entries["offset"][mine] < np.concatenate([before[shard : shard + 1], mine_ends[:-1]])
            before[shard] = mine_ends[-1]
    return bad
