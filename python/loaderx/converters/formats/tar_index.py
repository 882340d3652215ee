"""Where the files of a tar archive lie, as samples: neighbours of one name up to the first dot."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from loaderx._core import TarWalk
from loaderx.converters.formats.npyfile import Header, header_of
from loaderx.converters.formats.pieces import Places
from loaderx.converters.formats.ranges import Inflated, compression_of

MISSING = -1
"""In place of a header's number, where there is none."""
WINDOW = 1 << 18
"""Read at once where files are small."""
SHORT = 1 << 12
"""Read at once where they are large, so that little but headers is read."""
LARGE = 1 << 16
"""A jump beyond what was read that is worth reading less."""


class Within(NamedTuple):
    """The files of one extension, of some samples: an item for each."""

    starts: Places
    sizes: Places
    """0 where there is none."""
    headers: Places
    """The number of each file's NumPy header, MISSING where there is none."""
    present: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Member:
    """The files of one extension, at most one a sample: an item for each file."""

    samples: Places
    """The number of the sample of each, ascending."""
    starts: Places
    """The first byte of each file's content."""
    sizes: Places
    """The bytes of each."""
    headers: Places
    """The number of each file's NumPy header, MISSING where it isn't NumPy's."""

    def within(self, first: int, stop: int) -> Within:
        """Those of the samples from `first` up to `stop`."""
        low, high = np.searchsorted(self.samples, [first, stop])
        at = self.samples[low:high] - first
        present = np.zeros(stop - first, bool)
        present[at] = True

        def spread(values: Places, nothing: int) -> Places:
            column = np.full(stop - first, nothing, np.int64)
            column[at] = values[low:high]
            return column

        return Within(spread(self.starts, 0), spread(self.sizes, 0), spread(self.headers, MISSING), present)

    def first_lack(self) -> int:
        """The first sample that has no such file; the one after all of them if none lacks it before."""
        gaps = np.flatnonzero(self.samples != np.arange(len(self.samples)))
        return int(gaps[0]) if len(gaps) else len(self.samples)


@dataclass
class Shard:
    """One archive."""

    file: Path
    compression: str | None
    members: dict[str, Member] = field(default_factory=dict)
    keys: bytes = b""
    """Of all samples, one after another."""
    key_ends: Places = field(default_factory=lambda: np.zeros(1, np.int64))
    """Where each ends in `keys`, after a 0."""
    parsed: list[Header] = field(default_factory=list)
    """Headers of arrays, which are few."""

    def __len__(self) -> int:
        return len(self.key_ends) - 1

    def key(self, sample: int) -> str:
        """The name of a sample."""
        return self.keys[self.key_ends[sample] : self.key_ends[sample + 1]].decode(errors="replace")


class InPlace:
    """An archive as it lies on the disk."""

    def __init__(self, file: Path) -> None:
        self._stream = file.open("rb", buffering=0)
        self._end = 0

    def read(self, position: int, size: int) -> bytes:
        """At least so many bytes from `position` on, fewer only at the end. So many are at most 2 MiB."""
        window = SHORT if position - self._end > LARGE else WINDOW
        file = self._stream.fileno()
        content = os.pread(file, max(size, window), position)
        while len(content) < size and (more := os.pread(file, size - len(content), position + len(content))):
            content += more
        self._end = position + len(content)
        return content

    @property
    def length(self) -> int:
        """The bytes of the archive."""
        return os.fstat(self._stream.fileno()).st_size

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


class Streamed:
    """An archive that is inflated on the way."""

    def __init__(self, file: Path, compression: str) -> None:
        self._stream = Inflated(file, compression)
        self._rest = b""

    def read(self, position: int, size: int) -> bytes:
        """As `InPlace.read`; no position lies before the last one."""
        begin = self._stream.position - len(self._rest)
        self._rest = self._rest[position - begin :]
        if not self._rest:
            self._stream.skip_to(position)
        self._rest += self._stream.read(max(size, WINDOW) - len(self._rest))
        return self._rest

    @property
    def length(self) -> int:
        """How far it is read, which is all of it at the end."""
        return self._stream.position

    def close(self) -> None:
        """Close the file."""
        self._stream.close()


def indexed(file: Path, named: Mapping[str, bool], last: Sequence[str] = ()) -> Shard:
    """The index of an archive. ValueError for a damaged one.

    `named` says of extensions whether their files are NumPy's; of others those are that end, after their last dot, in one of `last`.
    """
    shard = Shard(file, compression_of(file))
    walk = TarWalk([(stored(name), is_array) for name, is_array in named.items()], [stored(name) for name in last])
    with closing(Streamed(file, shard.compression) if shard.compression else InPlace(file)) as archive:
        follow(shard, walk, archive)
    shard.keys, ends, files = walk.samples()
    shard.key_ends = np.concatenate([shard.key_ends, ends])
    shard.members = {shown(extension): Member(*columns) for extension, *columns in files}
    for name, member in shard.members.items():
        check_sizes(shard, name, member)
    return shard


def follow(shard: Shard, walk: TarWalk, archive: InPlace | Streamed) -> None:
    """Give a walk what it wants, up to the end."""
    while True:
        position, size = walk.wanted()
        content = archive.read(position, size)
        try:
            walk.feed(content, position)
            if len(content) < size:
                walk.finish(archive.length)
        except ValueError as error:
            raise ValueError(f"{shard.file}: {error}") from error
        for name, header in walk.fresh_headers():
            shard.parsed.append(header_of(BytesIO(header), f"{shard.file}: {shown(name)!r}", scalars=True))
        if len(content) < size:
            return


def check_sizes(shard: Shard, name: str, member: Member) -> None:
    """ValueError unless each array has just the bytes that its header says."""
    arrays = np.flatnonzero(member.headers != MISSING)
    numbers = member.headers[arrays]
    # A header may say more than 64 bits hold.
    expected = np.array([min(header.size + header.bytes, 1 << 62) for header in shard.parsed] or [0], np.int64)
    wrong = np.flatnonzero(expected[numbers] != member.sizes[arrays])
    if len(wrong):
        at = arrays[wrong[0]]
        header = shard.parsed[member.headers[at]]
        key = shard.key(int(member.samples[at]))
        raise ValueError(
            f"{shard.file}: {f'{key}.{name}'!r}: expected {header.bytes} bytes of an array of shape {header.shape}, "
            f"found {member.sizes[at] - header.size}"
        )


def stored(name: str) -> bytes:
    """A name as an archive has it."""
    return name.encode(errors="surrogateescape")


def shown(name: bytes) -> str:
    """The same as text, whatever its bytes."""
    return name.decode(errors="surrogateescape")
