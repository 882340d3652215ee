"""Shards of MDS: what the index says of them, and their bytes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from loaderx.converters.finding import natural
from loaderx.converters.formats.mds_columns import Column
from loaderx.converters.formats.pieces import Places
from loaderx.converters.formats.ranges import Inflated, beginning, read_range
from loaderx.converters.formats.splits import one_split
from loaderx.converters.source import Array

INDEX = "index.json"
FORMAT_IS = re.compile(rb'"format":\s*"mds"')
PACKAGES = {"snappy": ("snappy", "python-snappy"), "br": ("brotli", "brotli")}
STREAMED = {"zstd": "zstd", "gz": "gzip", "bz2": "bzip2"}


@dataclass(frozen=True)
class Stored:
    """A file of a shard, as the index says it is."""

    file: Path
    size: int
    hashes: Mapping[str, str]


@dataclass(frozen=True)
class Shard:
    """A shard."""

    columns: Sequence[Column]
    samples: int
    raw: Stored
    zipped: Stored | None
    compression: str
    """Its algorithm; empty for none."""

    @property
    def read_raw(self) -> bool:
        """Whether it isn't compressed, or lies there inflated too."""
        return self.zipped is None or self.raw.file.exists()

    @property
    def file(self) -> Path:
        """The file that is read."""
        return self.raw.file if self.zipped is None or self.read_raw else self.zipped.file

    def whole(self, checked: bool) -> Array:
        """All bytes, inflated. ValueError for other than the index says."""
        stored = self.raw if self.zipped is None or self.read_raw else self.zipped
        found = stored.file.stat().st_size
        if found != stored.size:
            raise ValueError(f"{stored.file}: expected {stored.size} bytes, as the index says, found {found}")
        content = read_range(stored.file, 0, found)
        if checked:
            check_hashes(stored, content)
        if stored is self.raw:
            return content
        content = inflated(stored.file, self.compression, content, self.raw.size)
        if checked:
            check_hashes(self.raw, content)
        return content

    def offsets(self, content: Array) -> Places:
        """Where the samples begin, and the last ends, from the first bytes of a shard. ValueError for what can't be."""
        end = 4 * (self.samples + 2)
        if len(content) < end or int(content[:4].view("<u4")[0]) != self.samples:
            raise ValueError(
                f"{self.raw.file}: expected a table of {self.samples} samples at its beginning, as the index says"
            )
        offsets = content[4:end].view("<u4").astype(np.int64)
        if offsets[0] < end or (np.diff(offsets) < 0).any() or offsets[-1] != self.raw.size:
            raise ValueError(f"{self.raw.file}: its table of samples doesn't fit its {self.raw.size} bytes")
        return offsets


def inflated(file: Path, compression: str, content: Array, size: int) -> Array:
    """The bytes of a compressed shard, which must be so many."""
    if compression in STREAMED:
        with closing(Inflated(file, STREAMED[compression])) as stream:
            whole = stream.exactly(size)
            if stream.read(1):
                raise ValueError(f"{file}: expected {size} bytes once inflated, found more")
        return whole
    try:
        plain = snappy(content, size) if compression == "snappy" else brotli(content, size)
    except ImportError:
        raise
    except Exception as error:  # packages have classes of their own
        raise ValueError(f"{file}: it can't be inflated ({compression}): {error}") from error
    if len(plain) != size:
        raise ValueError(f"{file}: expected {size} bytes once inflated, found {len(plain)}")
    return np.frombuffer(plain, np.uint8)


def snappy(content: Array, size: int) -> bytes:
    """One block of snappy, which says its length first."""
    length = 0
    for at, byte in enumerate(content[:5].tolist()):
        length |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            break
    if length != size:
        raise ValueError(f"expected {size} bytes, found that it says {length}")
    plain: bytes = package("snappy").decompress(content.tobytes())
    return plain


def brotli(content: Array, size: int) -> bytes:
    """A stream of brotli; it is given up once it is longer than it should be."""
    decoder = package("br").Decompressor()
    pieces: list[bytes] = []
    for at in range(0, len(content), 256):
        pieces.append(decoder.process(content[at : at + 256].tobytes()))
        if sum(map(len, pieces)) > size:
            break
    if not decoder.is_finished():
        raise ValueError("it is cut, or longer than it should be")
    return b"".join(pieces)


def package(compression: str) -> Any:
    """The package for a compression; ImportError tells its name."""
    module, name = PACKAGES[compression]
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"MDS shards compressed with {compression} need the package {name}: pip install {name} ({error})"
        ) from error


def check_hashes(stored: Stored, content: Array) -> None:
    """ValueError where a hash differs; those of xxhash only where that is installed."""
    for algorithm, expected in stored.hashes.items():
        found = digest(algorithm, content)
        if found not in (None, expected):
            raise ValueError(f"{stored.file}: its {algorithm} is {found}, expected {expected}, as the index says")


def digest(algorithm: str, content: Array) -> str | None:
    """The hash of bytes. None for an algorithm that isn't here."""
    if algorithm in hashlib.algorithms_available:
        return hashlib.new(algorithm, content.data, usedforsecurity=False).hexdigest()
    try:
        xxhash = import_module("xxhash")
    except ImportError:
        return None
    if algorithm not in xxhash.algorithms_available:
        return None
    found: str = getattr(xxhash, algorithm)(content).hexdigest()
    return found


def shards_of(index: Path) -> list[Shard]:
    """The shards that an index lists. ValueError for an index that says what can't be."""
    try:
        listed = json.loads(index.read_bytes())["shards"]
        return [shard_of(index.parent, one) for one in listed]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{index}: this is no index of MDS shards: {error!r}") from error


def shard_of(directory: Path, entry: Mapping[str, Any]) -> Shard:
    """One of them."""
    if entry["format"] != "mds":
        raise ValueError(f"expected format 'mds', found {entry['format']!r}")
    listed = zip(entry["column_names"], entry["column_encodings"], entry["column_sizes"], strict=True)
    columns = [Column(str(name), str(encoding), size) for name, encoding, size in listed]
    algorithm = str(entry["compression"] or "").partition(":")[0]
    if algorithm and algorithm not in (*STREAMED, *PACKAGES):
        raise ValueError(f"compression {entry['compression']!r} is none that is known")
    zipped = stored_of(directory, entry["zip_data"]) if entry["zip_data"] else None
    return Shard(columns, natural_number(entry["samples"]), stored_of(directory, entry["raw_data"]), zipped, algorithm)


def stored_of(directory: Path, entry: Mapping[str, Any]) -> Stored:
    """A file of a shard. ValueError for one outside the directory."""
    name = Path(entry["basename"])
    if name.is_absolute() or ".." in name.parts:
        raise ValueError(f"the file {entry['basename']!r} is outside the directory")
    hashes = {str(key): str(value) for key, value in (entry.get("hashes") or {}).items()}
    return Stored(directory / name, natural_number(entry["bytes"]), hashes)


def natural_number(value: Any) -> int:
    """A number of things."""
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise ValueError(f"expected a number of 32 bits, found {value!r}")
    return value


def finds(path: Path) -> Sequence[Path]:
    """The index of a directory, or those of the directories in it where it has none itself."""
    if path.is_file():
        return [path] if path.name == INDEX and is_index(path) else []
    if is_index(path / INDEX):
        return [path / INDEX]
    return one_split(path, sorted((inner for inner in path.glob(f"*/{INDEX}") if is_index(inner)), key=natural))


def is_index(path: Path) -> bool:
    """Whether a file is an index of MDS shards, by its first bytes."""
    return FORMAT_IS.search(beginning(path, 1 << 16)) is not None
