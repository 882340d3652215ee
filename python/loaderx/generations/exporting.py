"""Writing a store as loaderx 1.5 has it, for those who go back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from loaderx import _core
from loaderx._core import Store, read_small_file, replace_file
from loaderx.copying.block import BLOCK_RECORDS, Block
from loaderx.copying.place import streams_of, unfinished
from loaderx.copying.snapshot import Snapshot
from loaderx.copying.writing import copy
from loaderx.dataset import MSDataset, header
from loaderx.dataset import schema as schemas
from loaderx.dataset.index import Indices
from loaderx.dataset.packed import offsets_of
from loaderx.dataset.schema import Shape
from loaderx.dataset.shapes import listed_fit
from loaderx.progress import Progress, telling
from loaderx.zrecord import CorruptStoreError, PathLike, Zrecord, check_codec, no_store

FORMATS = ("1.5",)


def export(
    store: PathLike,
    path: PathLike,
    format: str = "1.5",  # noqa: A002 - it is what it is
    *,
    codec: str | None = None,
    level: int | None = None,
    progress: Progress | bool | None = None,
) -> int:
    """Write a copy of a store that loaderx 1.5 opens, reads and changes, ragged ones included.

    Each record is checked as it is read, and in the end all records of both stores are read again and compared. `path` appears when all
    is done.

    Dense stores need no export: loaderx 1.5 opens them as they are. It doesn't open ragged ones, since it wants the shape of every record
    in the schema, where it rewrites all of them at each append; here they are in memory at once too, some 100 bytes a record.
    loaderx 1.5 reads records without items, though it writes none.

    Args:
        store: directory of a dense or ragged store, of one of plain byte records, or of several streams.
        path: directory of the copy; there must be nothing yet.
        format: "1.5", the only one there is.
        codec: "raw", "zstd" or "zstd_dict" (with the store's own dictionary). None: the store's.
        level: zstd level. None: 3 for "zstd", 19 for "zstd_dict".
        progress: as for `migrate`.

    Returns:
        The number of records, or of those of each stream.

    Raises:
        FileExistsError: there is something at `path`.
        FileNotFoundError: there is no store.
        ValueError: another format, no dictionary for "zstd_dict", or more shapes than a schema holds (256 MiB).
        ZrecordError: the store is damaged.
    """
    if format not in FORMATS:
        raise ValueError(f"format: expected {' or '.join(map(repr, FORMATS))}, found {format!r}")
    store, path = Path(store), Path(path)
    check_codec(codec)
    names = streams_of(store)
    if not names and not Store.exists(store):
        raise no_store(store, "there is no store to export")
    with telling(progress) as tell, unfinished(path, store) as directory:
        new = directory / "new"
        if not names:
            return write(store, new, None, codec, level, tell)
        # As long as it is open, none of them is deleted from, and what is appended is not looked at.
        with MSDataset(store, read_only=True) as streams:
            for name in names:
                write(store / name, new / name, len(streams), codec, level, tell)
            return len(streams)


def write(
    store: Path, path: Path, length: int | None, codec: str | None, level: int | None, progress: Progress | None
) -> int:
    """Export the first `length` records of one store, or all; returns how many."""
    with Plain(store, length) as source:
        chosen = codec or source.codec
        copy(
            source,
            path,
            chosen,
            source.schema_of_copy(chosen),
            level=level,
            dictionary=source.dictionary_for(chosen),
            uniform=source.dense,
            progress=progress,
        )
        make_plain(path)
        source.check(path)
        return len(source)


class Plain(Snapshot):
    """The records of a store with all their shapes in the schema, as loaderx 1.5 has them, and none in the blocks."""

    def __init__(self, path: Path, length: int | None = None) -> None:
        super().__init__(path, length)
        try:
            self._shapes = self._all_shapes() if self.schema is not None and self.schema.kind == "ragged" else None
        except BaseException:
            self.close()
            raise

    def schema_of_copy(self, codec: str) -> bytes | None:
        """The schema of the copy, with the shapes of all ragged records."""
        if self.schema is None:
            return None
        return schemas.encode(replace(self.schema, codec=codec, shapes=self._shapes))

    def dictionary_for(self, codec: str) -> bytes | None:
        """The dictionary of the copy."""
        if codec != "zstd_dict":
            return None
        found = self.dictionary()
        if found is None and len(self):
            raise ValueError(f"{self.path}: codec 'zstd_dict' needs a dictionary, and this store has none")
        return found

    def block(self, first: int, idxs: Indices) -> Block:
        """The records at `idxs`, without their shapes."""
        return replace(super().block(first, idxs), rows=None)

    def _listed_rows(self) -> None:
        """Listed shapes stay what they are: not all of them have a row."""

    def _all_shapes(self) -> tuple[Shape, ...]:
        """The shape of each record of a ragged store."""
        assert self.schema is not None
        itemsize, listed = self.schema.dtype.itemsize, self.schema.shapes
        if listed is not None and len(listed) < len(self):
            raise CorruptStoreError(f"{self.path}: expected {len(self)} shapes, found {len(listed)}")
        shapes: list[Shape] = []
        for first in range(0, len(self), BLOCK_RECORDS):
            idxs = np.arange(first, min(first + BLOCK_RECORDS, len(self)), dtype=np.uint64)
            lengths = self.lengths(idxs).astype(np.int64)
            items, rest = np.divmod(lengths, itemsize)
            places = offsets_of(items)
            rows = self._store.shapes(idxs)
            of_block = None if listed is None else listed[first : first + len(idxs)]
            fits = _core.fits(rows, places) if of_block is None else listed_fit(of_block, items)
            if not (fits & (rest == 0)).all():
                at = int(np.argmin(fits & (rest == 0)))
                self.fail(first + at, f"its shape does not fit its {lengths[at]} bytes")
            shapes += _core.shapes(rows, places) if of_block is None else of_block
        return tuple(shapes)

    def check(self, path: Path) -> None:
        """CorruptStoreError unless the copy at `path` has as many records, and their shapes."""
        with Zrecord(path, read_only=True) as copied:
            sound = len(copied) == len(self) and not copied.sums_known
        if self.schema is not None and schemas.read(path).shapes != self._shapes:
            sound = False
        if not sound:
            raise CorruptStoreError(f"{path}: what was written is not what was read; the disk is not to be trusted")


def make_plain(path: Path) -> None:
    """Take from a new store what loaderx 1.5 doesn't know: files, and what is in the reserved bytes of the header."""
    replace_file(path / header.FILE, header.made_plain(read_small_file(path / header.FILE)))
    for file in path.iterdir():
        if file.name in ("sync.zr", "lock.zr") or file.suffix == ".sum":
            file.unlink()
