"""Where the files of a tar archive lie, as samples: neighbours of one name up to the first dot."""

from __future__ import annotations

import re
import tarfile
from array import array
from contextlib import closing
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np

from loaderx.converters.formats.npyfile import HEADER_LIMIT, Header, header_of
from loaderx.converters.formats.pieces import Places
from loaderx.converters.formats.ranges import Inflated, compression_of

NAME = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$")
"""As webdataset splits it."""
SKIPPED = re.compile(r"__[^/]*__($|/)")
BLOCK = 512
SHORT_HEADER = 256
MISSING = -1


class Member:
    """The files of one extension, one a sample: where each lies."""

    def __init__(self) -> None:
        self._starts, self._sizes, self._headers = array("q"), array("q"), array("q")

    def put(self, sample: int, start: int, size: int, header: int) -> None:
        """The file of a sample; those before it that had none get none."""
        self.pad(sample)
        self._starts.append(start)
        self._sizes.append(size)
        self._headers.append(header)

    def pad(self, samples: int) -> None:
        """Up to so many samples: what is not there is MISSING."""
        for _ in range(samples - len(self._starts)):
            self._starts.append(0)
            self._sizes.append(0)
            self._headers.append(MISSING - 1)

    @property
    def starts(self) -> Places:
        """The first byte of each file's content."""
        return np.frombuffer(self._starts, np.int64)

    @property
    def sizes(self) -> Places:
        """The bytes of each; 0 where there is none."""
        return np.frombuffer(self._sizes, np.int64)

    @property
    def headers(self) -> Places:
        """The number of each file's NumPy header, MISSING where it isn't NumPy's."""
        return np.frombuffer(self._headers, np.int64)

    @property
    def present(self) -> Any:
        """Which samples have such a file."""
        return self.headers >= MISSING


@dataclass
class Shard:
    """One archive."""

    file: Path
    compression: str | None
    members: dict[str, Member] = field(default_factory=dict)
    keys: bytearray = field(default_factory=bytearray)
    """Of all samples, one after another."""
    key_ends: array[int] = field(default_factory=lambda: array("q", [0]))
    headers: dict[bytes, int] = field(default_factory=dict)
    """Of arrays, which are few: by their bytes, to their number."""
    parsed: list[Header] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.key_ends) - 1

    def key(self, sample: int) -> str:
        """The name of a sample."""
        return self.keys[self.key_ends[sample] : self.key_ends[sample + 1]].decode(errors="replace")


class Watched:
    """A file as tarfile reads it. It keeps what was read last: tarfile takes a damaged header for the end, and says nothing."""

    def __init__(self, stream: IO[bytes] | Inflated) -> None:
        self._stream = stream
        self.last = b""

    def read(self, size: int) -> bytes:
        """So many bytes, or up to the end."""
        self.last = self._stream.read(size)
        return self.last

    def tell(self) -> int:
        """How far it is read."""
        return self._stream.position if isinstance(self._stream, Inflated) else self._stream.tell()

    def seek(self, position: int) -> None:
        """Go on to `position`, which lies ahead in what is inflated."""
        if isinstance(self._stream, Inflated):
            self._stream.skip_to(position)
        else:
            self._stream.seek(position)


def indexed(file: Path, arrays: Any) -> Shard:
    """The index of an archive. `arrays` tells by an extension whether its files are NumPy's. ValueError for a damaged one."""
    shard = Shard(file, compression_of(file))
    opened = Inflated(file, shard.compression) if shard.compression else file.open("rb")
    with closing(opened):
        watched = Watched(opened)
        try:
            walk(shard, watched, arrays)
        except (tarfile.TarError, OverflowError, RecursionError, UnicodeError, EOFError) as error:
            raise ValueError(f"{file}: this tar archive is damaged at about byte {watched.tell()}: {error}") from error
    for member in shard.members.values():
        member.pad(len(shard))
    return shard


def walk(shard: Shard, watched: Watched, arrays: Any) -> None:
    """Enter all files of an archive."""
    stream: Any = watched
    current = None
    end = 0
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        while (info := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined, unused-ignore]
            if info.size < 0 or info.offset_data < end:
                raise ValueError(
                    f"{shard.file}: {info.name!r} has {info.size} bytes at byte {info.offset_data}; the archive is damaged"
                )
            end = info.offset_data + info.size
            split = None if info.isdir() else named(shard.file, info)
            if split is None:
                continue
            key, extension = split
            if key != current:
                current = key
                shard.keys += key.encode(errors="surrogateescape")
                shard.key_ends.append(len(shard.keys))
            put(shard, watched, info, extension, arrays(extension))
    check_end(shard.file, watched)


def named(file: Path, info: tarfile.TarInfo) -> tuple[str, str] | None:
    """Sample and extension of a file, in lower case. None for what is no part of a sample."""
    if SKIPPED.match(info.name):
        return None
    split = NAME.match(info.name)
    if split is None or not split[2]:
        return None
    if not info.isreg() or info.issparse():
        what = "a sparse file" if info.issparse() else "a link" if info.issym() or info.islnk() else "no regular file"
        raise ValueError(f"{file}: {info.name!r} is {what}; expected regular files")
    return split[1], split[2].lower()


def put(shard: Shard, watched: Watched, info: tarfile.TarInfo, extension: str, is_array: bool) -> None:
    """Enter a file of the last sample."""
    member = shard.members.setdefault(extension, Member())
    sample = len(shard) - 1
    if len(member.starts) > sample:
        raise ValueError(f"{shard.file}: sample {shard.key(sample)!r} has two files {extension!r}")
    header = MISSING
    if is_array:
        header = header_number(shard, watched, info)
    member.put(sample, info.offset_data, info.size, header)


def header_number(shard: Shard, watched: Watched, info: tarfile.TarInfo) -> int:
    """The number of the header of an array. Few differ, so most are only looked up."""
    watched.seek(info.offset_data)
    start = watched.read(min(SHORT_HEADER, info.size))
    size = 10 + int.from_bytes(start[8:10], "little") if start[6:7] == b"\1" else SHORT_HEADER
    if len(start) < size or start[6:7] != b"\1":
        start += watched.read(min(HEADER_LIMIT, info.size - len(start)))
    number = shard.headers.get(start[:size])
    if number is None:
        header = header_of(BytesIO(start), f"{shard.file}: {info.name!r}", scalars=True)
        number = shard.headers.setdefault(start[: header.size], len(shard.parsed))
        if number == len(shard.parsed):
            shard.parsed.append(header)
    header = shard.parsed[number]
    if header.size + header.bytes != info.size:
        raise ValueError(
            f"{shard.file}: {info.name!r}: expected {header.bytes} bytes of an array of shape {header.shape}, "
            f"found {info.size - header.size}"
        )
    return number


def check_end(file: Path, watched: Watched) -> None:
    """ValueError unless an empty block ended the archive, and nothing is behind it."""
    last = watched.last
    if len(last) < BLOCK or last.count(0) != len(last):
        found = "the end of the file" if len(last) < BLOCK else "other bytes"
        raise ValueError(
            f"{file}: at byte {watched.tell() - len(last)}: expected a header, or the empty block that ends an archive, found {found}; "
            "it is cut or damaged"
        )
    while rest := watched.read(1 << 16):
        if rest.count(0) != len(rest):
            raise ValueError(
                f"{file}: there is more after the end of the archive, at about byte {watched.tell() - len(rest)}"
            )
