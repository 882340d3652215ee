"""WebDataset: tar archives whose neighbouring files of one name are a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from loaderx.converters.finding import with_suffix
from loaderx.converters.formats.pieces import (
    Nulls,
    Places,
    check_nulls,
    check_text,
    gathered,
    steps,
    unique_names,
    valid_spec,
)
from loaderx.converters.formats.ranges import Inflated, read_range
from loaderx.converters.formats.splits import one_split
from loaderx.converters.formats.tar_index import Member, Shard, indexed
from loaderx.converters.formats.tar_values import ARRAYS, Field, Where, field_of, kind_of
from loaderx.converters.source import TEXT, Array, Block, Format, Part, StreamSpec, Values
from loaderx.dataset.packed import Packed

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")
KEY = "__key__"
SPARSE = 4
"""Where wanted files take less than this part of the bytes from the first to the last of them, each is read by itself."""


class Shards:
    """Samples of archives, one archive after another."""

    def __init__(
        self, files: Sequence[Path], *, nulls: Nulls = "refuse", kinds: Mapping[str, str] | None = None
    ) -> None:
        check_nulls(nulls)
        self.files = files
        kind = partial(kind_of, kinds or {})
        named = {extension: kind(extension) == "npy" for extension in kinds or {}}
        self._shards = [indexed(file, named, ARRAYS) for file in files]
        names = dict.fromkeys(name for shard in self._shards for name in shard.members)
        unknown = [name for name in kinds or {} if name not in names]
        if unknown:
            raise ValueError(f"kinds: expected some of the extensions {list(names)}, found {unknown}")
        self._fields = {name: field_of(name, kind(name), self._shards) for name in names}
        self._nulls = nulls
        self.streams = unique_names(list(self._specs()))

    def _specs(self) -> Iterator[StreamSpec]:
        yield StreamSpec(KEY, "ragged", np.dtype(np.uint8), None, "the names of the samples", TEXT)
        for field in self._fields.values():
            yield field.spec
            if field.missing and self._nulls == "mask":
                yield valid_spec(field.spec.name, f"which samples have {field.name!r}")

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(map(len, self._shards))

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """Neighbouring samples of one archive."""
        wanted = [field for field in self._fields.values() if field.spec.name in names]
        for field in wanted:
            if field.missing and self._nulls == "refuse":
                raise ValueError(
                    f"{field.lack}; nulls='mask' makes of it an empty record, and a stream {field.spec.name}.valid"
                )
        for shard in self._shards:
            if start < len(shard):
                yield from parts_of(shard, start, names, wanted)
            start = max(0, start - len(shard))

    def close(self) -> None:
        """Nothing is open between parts."""


class Span(NamedTuple):
    """Bytes of an archive, and where files lie in them."""

    buffer: Array
    starts: dict[str, Places]


def parts_of(shard: Shard, start: int, names: Sequence[str], fields: Sequence[Field]) -> Iterator[Part]:
    """The samples of an archive from `start` on."""
    members = {field.name: shard.members[field.name] for field in fields if field.name in shard.members}
    sizes = np.full(len(shard), 64, np.int64)
    for member in members.values():
        sizes[member.samples] += member.sizes
    ranges = steps(sizes, start)
    build = partial(block, shard, names, fields)
    if shard.compression is None:
        for first, stop in ranges:
            yield partial(lambda a, b: build(a, b, read_span(shard.file, members, a, b)), first, stop)
        return
    with closing(Inflated(shard.file, shard.compression)) as stream:
        for first, stop in ranges:
            yield partial(build, first, stop, inflated_span(stream, members, first, stop))


def bounds(members: Mapping[str, Member], first: int, stop: int) -> tuple[int, int, int]:
    """Where the first of the files of some samples begins and where the last ends, and how many bytes they are."""
    files = [member.within(first, stop) for member in members.values()]
    sizes = np.concatenate([those.sizes for those in files] or [np.zeros(0, np.int64)])
    if not sizes.any():
        return 0, 0, 0
    starts = np.concatenate([those.starts for those in files])
    there = sizes > 0
    return int(starts[there].min()), int((starts + sizes)[there].max()), int(sizes.sum())


def read_span(file: Path, members: Mapping[str, Member], first: int, stop: int) -> Span:
    """The files of some samples: all that lies between, or each by itself where that is far less."""
    low, high, count = bounds(members, first, stop)
    if count * SPARSE >= high - low:
        return Span(read_range(file, low, high - low), shifted(members, first, stop, low))
    pieces: list[Array] = []
    starts: dict[str, Places] = {}
    done = 0
    with file.open("rb") as stream:
        for name, member in members.items():
            files = member.within(first, stop)
            sizes = files.sizes
            starts[name] = done + np.cumsum(sizes) - sizes
            done += int(sizes.sum())
            for at, size in zip(files.starts.tolist(), sizes.tolist(), strict=True):
                stream.seek(at)
                pieces.append(np.frombuffer(stream.read(size), np.uint8))
    buffer = np.concatenate(pieces)
    if len(buffer) != done:
        raise OSError(f"{file}: expected {done} bytes of files in it, found {len(buffer)}; it was cut meanwhile")
    return Span(buffer, starts)


def inflated_span(stream: Inflated, members: Mapping[str, Member], first: int, stop: int) -> Span:
    """The files of some samples that lie ahead in a compressed archive."""
    low, high, _ = bounds(members, first, stop)
    stream.skip_to(low)
    return Span(stream.exactly(high - low), shifted(members, first, stop, low))


def shifted(members: Mapping[str, Member], first: int, stop: int, low: int) -> dict[str, Places]:
    """Where files lie in bytes from `low` on."""
    return {name: np.maximum(member.within(first, stop).starts - low, 0) for name, member in members.items()}


def block(shard: Shard, names: Sequence[str], fields: Sequence[Field], first: int, stop: int, span: Span) -> Block:
    """The streams `names` of some samples."""
    values: dict[str, Values] = {}
    where = partial(place_of, shard, first)
    if KEY in names:
        values[KEY] = keys(shard, first, stop, where)
    for field in fields:
        values[field.spec.name] = field.read(shard, first, stop, span.buffer, span.starts.get(field.name), where)
    for name in names:
        if name not in values:
            values[name] = present(shard, name.removesuffix(".valid"), first, stop)
    return values


def present(shard: Shard, extension: str, first: int, stop: int) -> Array:
    """Which samples have a file."""
    if extension not in shard.members:
        return np.zeros(stop - first, bool)
    return shard.members[extension].within(first, stop).present


def keys(shard: Shard, first: int, stop: int, where: Where) -> Packed:
    """The names of some samples."""
    ends = shard.key_ends[first : stop + 1]
    names = np.frombuffer(shard.keys[ends[0] : ends[-1]], np.uint8)
    return check_text(gathered(names, ends[:-1] - ends[0], np.diff(ends)), lambda at: where(at, KEY))


def place_of(shard: Shard, first: int, at: int, extension: str) -> str:
    """A file of a sample, for messages."""
    return f"{shard.file}: sample {shard.key(first + at)!r}, {extension!r}"


def finds(path: Path) -> Sequence[Path]:
    """Files by name. ValueError for several splits."""
    return one_split(path, with_suffix(path, SUFFIXES))


FORMAT = Format("webdataset", "WebDataset tar shards", finds, Shards)
