"""LMDB: the keys of an environment in their order, and their values."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from loaderx.converters.formats.pieces import joined
from loaderx.converters.formats.ranges import beginning
from loaderx.converters.source import PART_BYTES, Block, Format, Part, StreamSpec

DATA = "data.mdb"
MAGIC = (0xBEEFC0DE).to_bytes(4, "little")
META = 16
"""The bytes of a page before what a meta page says."""
SUBDATABASE = 48
"""The bytes of an entry that is a database."""
LOOKED_AT = 1 << 8
"""How many entries are looked at for databases before any is written; the others when they are read."""
KEY, VALUE = "key", "value"


class LmdbEnvironment:
    """The entries of one database. It is opened read-only and without its lock, so nothing else may write it meanwhile."""

    def __init__(self, files: Sequence[Path], *, database: str | None = None) -> None:
        import lmdb

        if len(files) != 1:
            raise ValueError(f"expected one LMDB environment, found {len(files)}: {files[0]}, {files[1]}, ...")
        self.files = list(files)
        check_size(files[0])
        self._failure: Any = lmdb.Error
        with self._named_errors():
            self._environment = lmdb.open(
                os.fspath(files[0]), subdir=False, readonly=True, lock=False, create=False, max_dbs=1 << 8
            )
        try:
            with self._named_errors():
                self._open(database)
        except BaseException:
            self.close()
            raise

    def _open(self, database: str | None) -> None:
        self._named = database is not None
        if not self._named:
            with self._environment.begin() as transaction:
                keys = [key for key, value in islice(transaction.cursor(), LOOKED_AT) if len(value) == SUBDATABASE]
                self._refuse_databases(transaction, keys)
        name = None if database is None else database.encode()
        self._database = self._environment.open_db(name, create=False)
        with self._environment.begin(db=self._database) as transaction:
            self._count = int(transaction.stat(self._database)["entries"])
            first = next(iter(transaction.cursor().iternext(keys=True, values=False)), b"")
            numbered = self._database.flags(transaction)["integerkey"] and len(first) in (4, 8)
        self._number = np.dtype(f"=u{len(first)}") if numbered else None
        key = StreamSpec(KEY, "ragged", np.dtype(np.uint8), None, "keys, in their order")
        if self._number is not None:
            key = StreamSpec(KEY, "dense", self._number, (), "integer keys, in their order")
        self.streams = [key, StreamSpec(VALUE, "ragged", np.dtype(np.uint8), None, "values")]

    def _refuse_databases(self, transaction: Any, keys: Sequence[bytes]) -> None:
        """ValueError where one of some entries of the environment itself is a database: those of as many bytes as one."""
        names: list[str] = []
        for name in keys:
            with suppress(self._failure):
                self._environment.open_db(name, transaction, create=False)
                names.append(name.decode(errors="replace"))
        if names:
            raise ValueError(
                f"{self.files[0]}: this environment holds databases of names: give database=, one of {names}"
            )

    @property
    def records(self) -> int:
        """The number of records."""
        return self._count

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """Neighbouring entries. The iterator copies them; a cursor moves but entry by entry."""
        # Where values are not wanted, buffers tell how long they are, and don't read them.
        buffers = VALUE not in names
        with self._named_errors(), self._environment.begin(db=self._database, buffers=buffers) as transaction:
            cursor = transaction.cursor()
            if start >= self._count or not cursor.first():
                return
            if start:
                # An iterator leaves the cursor at what it gave last, where the next one begins.
                deque(islice(cursor.iternext(keys=True, values=False), start), maxlen=0)
                cursor.next()
            entries = cursor.iternext(keys=True, values=True)
            while part := taken(entries, VALUE in names):
                if not self._named:
                    self._refuse_databases(transaction, part.suspects)
                yield partial(self._block, names, part.keys, part.values)

    def _block(self, names: Sequence[str], keys: list[bytes], values: list[bytes]) -> Block:
        block: Block = {}
        if KEY in names:
            if self._number is None:
                block[KEY] = joined(keys)
            else:
                block[KEY] = np.frombuffer(b"".join(keys), self._number)
        if VALUE in names:
            block[VALUE] = joined(values)
        return block

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Errors of LMDB as ValueError that name the file."""
        try:
            yield
        except self._failure as error:
            raise ValueError(f"{self.files[0]}: {error}") from error

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()


class Taken(NamedTuple):
    """Neighbouring entries."""

    keys: list[bytes]
    values: list[bytes]
    suspects: list[bytes]
    """The keys of those that may be databases."""


def taken(entries: Iterator[Any], with_values: bool) -> Taken | None:
    """The next entries, of about PART_BYTES; their values are empty if not wanted. None at the end."""
    found = Taken([], [], [])
    size = 0
    for entry, content in entries:
        key, value = bytes(entry), content if with_values else b""
        found.keys.append(key)
        found.values.append(value)
        if len(content) == SUBDATABASE:
            found.suspects.append(key)
        size += len(key) + len(value) + 64
        if size >= PART_BYTES:
            break
    return found if found.keys else None


def check_size(file: Path) -> None:
    """ValueError for a file that is shorter than it says: it is mapped, and what is beyond its end would end the process."""
    start = beginning(file, 2 << 16)
    page = int.from_bytes(start[META + 24 : META + 28], "little")
    last = 0
    for at in (0, page):
        meta = start[at + META :]
        if len(meta) < 136 or meta[:4] != MAGIC or not 256 <= page <= 1 << 16:
            raise ValueError(f"{file}: expected an LMDB environment, found other bytes at its beginning")
        last = max(last, int.from_bytes(meta[120:128], "little"))
    expected = (last + 1) * page
    if file.stat().st_size < expected:
        raise ValueError(f"{file}: expected at least {expected} bytes, found {file.stat().st_size}; it is cut")


def finds(path: Path) -> Sequence[Path]:
    """The data file: of a directory, or by itself."""
    file = path / DATA if path.is_dir() else path
    return [file] if beginning(file, META + 4)[META:] == MAGIC else []


FORMAT = Format("lmdb", "LMDB", finds, LmdbEnvironment, needs="lmdb")
