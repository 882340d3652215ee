"""What becomes of the files of one extension."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from loaderx.converters.formats.npyfile import Header
from loaderx.converters.formats.pieces import Places, check_text, gathered
from loaderx.converters.formats.tar_index import Member, Shard
from loaderx.converters.source import TEXT, Array, StreamSpec, Values
from loaderx.dataset.dtypes import DType, described
from loaderx.dataset.packed import Packed

KINDS = ("bytes", "int", "npy", "text")
BY_EXTENSION = {
    **dict.fromkeys(("cls", "cls2", "class", "count", "index", "inx", "id"), "int"),
    **dict.fromkeys(("txt", "text", "transcript", "json", "jsn"), "text"),
    "npy": "npy",
}
ARRAYS = [ending for ending, kind in BY_EXTENSION.items() if kind == "npy"]
INTEGER = re.compile(rb"\s*[+-]?[0-9]{1,30}\s*")
Where: TypeAlias = Callable[[int, str], str]
"""Names a sample's file by its place in the block."""


def kind_of(kinds: Mapping[str, str], extension: str) -> str:
    """What files of an extension are: as `kinds` says, or by what comes after its last dot."""
    kind = kinds.get(extension) or BY_EXTENSION.get(extension.rpartition(".")[2], "bytes")
    if kind not in KINDS:
        raise ValueError(f"kinds: expected one of {', '.join(KINDS)} for {extension!r}, found {kind!r}")
    return kind


class Files(NamedTuple):
    """The files of some samples, in a buffer."""

    buffer: Array
    starts: Places
    sizes: Places
    present: npt.NDArray[np.bool_]
    headers: list[Header | None]
    """Of each array; None where there is none. Empty for other files."""
    where: Callable[[int], str]


class Field:
    """The files of one extension, as a stream."""

    def __init__(self, name: str, spec: StreamSpec, shards: Sequence[Shard], read: Callable[[Files], Values]) -> None:
        self.name = name
        self.lack = ""
        self.missing = sum(self._missing(shard) for shard in shards)
        total = sum(map(len, shards))
        lacking = f", which {self.missing:,} of {total:,} samples don't have" if self.missing else ""
        self.spec = replace(spec, origin=f"files {name!r}{lacking}")
        self._read = read

    def _missing(self, shard: Shard) -> int:
        """How many samples have no such file; the first is kept for a message."""
        member = shard.members.get(self.name)
        lacks = len(shard) - (0 if member is None else len(member.samples))
        if lacks and not self.lack:
            key = shard.key(0 if member is None else member.first_lack())
            self.lack = f"{shard.file}: sample {key!r} has no file {self.name!r}, which others have"
        return lacks

    def read(self, shard: Shard, first: int, stop: int, buffer: Array, starts: Places | None, where: Where) -> Values:
        """The records of some samples, whose files lie in `buffer`; `starts` is None where the shard has no such files."""
        named = partial(self._where, where)
        if starts is None:
            nothing = np.zeros(stop - first, np.int64)
            return self._read(
                Files(buffer, nothing, nothing, np.zeros(stop - first, bool), [None] * (stop - first), named)
            )
        files = shard.members[self.name].within(first, stop)
        numbers = files.headers.tolist()
        headers = [shard.parsed[number] if number >= 0 else None for number in numbers] if shard.parsed else []
        return self._read(Files(buffer, starts, files.sizes, files.present, headers, named))

    def _where(self, where: Where, at: int) -> str:
        return where(at, self.name)


def field_of(name: str, kind: str, shards: Sequence[Shard]) -> Field:
    """The stream of an extension."""
    if kind == "npy":
        spec = arrays_spec(name, [(shard, shard.members[name]) for shard in shards if name in shard.members])
        return Field(name, spec, shards, partial(arrays, spec))
    if kind == "int":
        return Field(name, StreamSpec(name, "dense", np.dtype(np.int64), ()), shards, integers)
    spec = StreamSpec(name, "ragged", np.dtype(np.uint8), None, "", TEXT if kind == "text" else {})
    return Field(name, spec, shards, text if kind == "text" else content)


def content(files: Files) -> Packed:
    """The bytes as they are."""
    return gathered(files.buffer, files.starts, files.sizes)


def text(files: Files) -> Packed:
    """The bytes, which are UTF-8."""
    return check_text(content(files), files.where)


def integers(files: Files) -> Array:
    """Decimal numbers, of 64 bits; 0 where there is none."""
    numbers = np.zeros(len(files.starts), np.int64)
    for at in np.flatnonzero(files.present).tolist():
        start, size = int(files.starts[at]), int(files.sizes[at])
        digits = files.buffer[start : start + size].tobytes()
        if INTEGER.fullmatch(digits) is None or not -(2**63) <= int(digits) < 2**63:
            raise ValueError(
                f"{files.where(at)}: expected a decimal number of 64 bits, found {digits[:40]!r}; kinds= with 'text' takes it as text"
            )
        numbers[at] = int(digits)
    return numbers


def arrays_spec(name: str, members: Sequence[tuple[Shard, Member]]) -> StreamSpec:
    """The stream of arrays: dense where all are alike. ValueError for those of different dtypes."""
    headers: list[Header] = []
    for shard, member in members:
        headers += [shard.parsed[number] for number in np.unique(member.headers).tolist()]
    first = headers[0]
    for header in headers:
        if header.dtype != first.dtype:
            raise ValueError(
                f"{members[0][0].file}: files {name!r} hold arrays of {described(first.dtype)} and of {described(header.dtype)}; a stream "
                "has one dtype. kinds= with 'bytes' takes them as they are"
            )
    shapes = {header.shape for header in headers}
    if len(shapes) == 1:
        return StreamSpec(name, "dense", first.dtype, first.shape)
    return StreamSpec(name, "ragged", first.dtype)


def arrays(spec: StreamSpec, files: Files) -> Values:
    """Arrays of NumPy's format; zeros, or an empty record, where there is none."""
    skips = np.array([0 if header is None else header.size for header in files.headers], np.int64)
    packed = gathered(files.buffer, files.starts + skips, files.sizes - skips)
    if any(header is not None and header.fortran and len(header.shape) > 1 for header in files.headers):
        packed = in_rows(packed, files.headers, spec.dtype)
    if spec.item_shape is not None:
        there = int(files.present.sum())
        values = np.ascontiguousarray(packed.values).view(spec.dtype).reshape(there, *spec.item_shape)
        if there == len(files.starts):
            return values
        records = np.zeros((len(files.starts), *spec.item_shape), spec.dtype)
        records[files.present] = values
        return records
    values = np.ascontiguousarray(packed.values).view(spec.dtype)
    shapes = [(0,) if header is None else header.shape for header in files.headers]
    return Packed(values, packed.offsets // spec.dtype.itemsize, shapes)


def in_rows(packed: Packed, headers: Sequence[Header | None], dtype: DType) -> Packed:
    """The same with arrays in Fortran order put into C order."""
    values = packed.values.copy()
    for at, header in enumerate(headers):
        if header is not None and header.fortran:
            start, end = int(packed.offsets[at]), int(packed.offsets[at + 1])
            columns = values[start:end].view(dtype).reshape(header.shape, order="F")
            values[start:end] = np.frombuffer(columns.tobytes(), np.uint8)
    return Packed(values, packed.offsets, None)
