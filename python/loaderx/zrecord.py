"""The record layer: a store of byte records under its public name.

The datasets of `loaderx.dataset` are this plus a schema. The files are described in `docs/format.md`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx._core import (
    MAX_RECORD_LEN,
    CorruptRecordError,
    CorruptStoreError,
    Rows,
    StaleStoreError,
    Store,
    StoreLockedError,
    UnsupportedCodecError,
    ZrecordError,
)
from loaderx.arguments import uint64_array
from loaderx.closing import Closing
from loaderx.memory import Memory, memory_of
from loaderx.older import refuse_older

if TYPE_CHECKING:
    from loaderx._core import Stats

__all__ = [
    "CODECS",
    "MAX_RECORD_LEN",
    "CorruptRecordError",
    "CorruptStoreError",
    "StaleStoreError",
    "StoreLockedError",
    "UnsupportedCodecError",
    "Zrecord",
    "ZrecordError",
    "build_dict",
]

CODECS = {"raw": 0, "zstd": 1, "zstd_dict": 2}
"""Codec names and the numbers that stand for them in a store's header."""

PathLike: TypeAlias = str | os.PathLike[str]
Bytes: TypeAlias = bytes | bytearray | memoryview
Verify: TypeAlias = Literal["always", "once", "never"]
Io: TypeAlias = Literal["auto", "mmap", "pread"]


class Zrecord(Closing):
    """A store of byte records: batched append, gather, delete and compact, each one native call.

    Live records are exactly `0 .. len`: a deletion moves the last record into the hole. `gather` and `append` may run at once from
    many threads; `delete` and `compact` must run alone, and refuse (StoreLockedError) while others have the store open.

    The length is that of this handle: its own appends count at once, those of other handles after `refresh()`.

    `idxs` are record indices in any order, duplicates included, shape (n,): `gather`, `lengths` and `delete` take lists and arrays of any
    integers, all others C-contiguous uint64. IndexError for one out of range, ValueError for a negative one, TypeError for other things.

    A closed handle raises ValueError. One under which records were moved, since its lock didn't hold, raises StaleStoreError at reads and
    changes: open the store anew.

    Args:
        path: directory of the store; created, parents included, when missing.
        codec: "raw", "zstd" or "zstd_dict". None: "zstd" for a new store, whatever it is for an existing one.
        level: zstd level of a new store. None: 3 for "zstd", 19 for "zstd_dict". At 1 to 4, "zstd" leaves out short
            matches where they save nothing.
        verify: "always" checks each record that is read against its checksum, "once" only at its first read, "never" trusts the disk.
        io: "mmap" reads through a memory map, "pread" by positional reads, "auto" chooses by the file system.
        read_only: never create, never write, and take no lock for writing.

    Raises:
        ValueError: unknown codec, or a codec or level that is not the store's.
        FileNotFoundError: `read_only`, and there is no store.
        OSError: the path is a file, may not be read, or the disk fails.
        ZrecordError: the directory holds something else, or a damaged store.
    """

    def __init__(
        self,
        path: PathLike,
        codec: str | None = None,
        *,
        level: int | None = None,
        verify: Verify = "always",
        io: Io = "auto",
        read_only: bool = False,
    ) -> None:
        check_codec(codec)
        self.path = Path(path)
        self._absolute = self.path.absolute()
        self._options: dict[str, Any] = {"verify": verify, "io": io, "read_only": read_only}
        if not Store.exists(self.path):
            if read_only:
                raise no_store(self.path, "there is no zrecord store to read")
            create(self.path, codec, level, schema=None)
        refuse_older(self.path)
        self._core = Store.open(self.path, codec=codec, **self._options)
        if level is not None and self._core.level not in (None, level):
            found = self._core.level
            self._core.close()
            raise ValueError(f"{self.path}: level is fixed when a store is created: expected {level}, found {found}")

    @property
    def codec(self) -> str:
        """The store's codec: "raw", "zstd" or "zstd_dict"."""
        return self._core.codec

    @property
    def level(self) -> int | None:
        """The zstd level that the store's writers use; None where there is none or none is recorded."""
        return self._core.level

    @property
    def has_shapes(self) -> bool:
        """Whether the store keeps a shape a record (see `shapes`)."""
        return self._core.has_shapes

    @property
    def sums_known(self) -> bool:
        """Whether the records have checksums: not after a plain version 3 writer, such as loaderx 1.5, changed the store."""
        return self._core.sums_known

    @property
    def generation(self) -> int:
        """Raised by each delete and compact, modulo 2^32."""
        return self._core.generation

    @property
    def has_writer(self) -> bool:
        """Whether any handle, in this process or another, is the store's writer now."""
        return self._core.has_writer

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._core.closed

    @property
    def has_written(self) -> bool:
        """Whether this handle changed the store; such a handle does not pickle."""
        return self._core.has_written

    def __len__(self) -> int:
        return len(self._core)

    def append(
        self, src: npt.NDArray[Any] | Bytes, offsets: npt.ArrayLike, shapes: npt.NDArray[np.uint32] | None = None
    ) -> int:
        """Append the records packed in `src`: record i starts at byte `offsets[i]`, the last one ends where `src` ends.

        Args:
            src: C-contiguous array of any fixed-width dtype, or bytes.
            offsets: ascending byte offsets, shape (n,), the first being 0.
            shapes: as for `append_list`.

        Returns:
            The index of the first new record. Once it returns, other handles see the records after `refresh()`.

        Raises:
            TypeError: `src` is no array or bytes, or holds references; offsets that are no integers.
            ValueError: no records, offsets that are no packing, shapes that don't fit, a record over MAX_RECORD_LEN.
            UnsupportedCodecError: a "zstd_dict" store without its dictionary.
            StoreLockedError: another handle is the store's writer.
            PermissionError: the handle is `read_only`, or the store may not be written.
            Nothing was written when it raises one of these.
        """
        return self._core.append(byte_array(src, "src"), uint64_array(offsets, "offsets"), shapes)

    def append_rows(self, rows: npt.NDArray[Any]) -> int:
        """Append one record a row along axis 0; returns the first new index.

        `rows`: C-contiguous, of any fixed-width dtype, shape (n, ...), n > 0, else ValueError. Other errors are those of `append`.
        """
        return self._core.append_rows(rows)

    def append_list(
        self, records: Sequence[npt.NDArray[Any] | bytes], shapes: npt.NDArray[np.uint32] | None = None
    ) -> int:
        """Append one record an element, C-contiguous arrays or bytes, at least one; returns the first new index.

        `shapes`: (n, 8) uint32 rows of the `.shape` file (`docs/format.md`), None when all records are one-dimensional. Errors are those of
        `append`, and name the record.
        """
        return self._core.append_list(records, shapes)

    def gather(self, idxs: npt.ArrayLike, dst: npt.NDArray[Any], offsets: npt.ArrayLike) -> None:
        """Decode record `idxs[i]` into `dst` at byte `offsets[i]`.

        Args:
            idxs: as the class has it.
            dst: C-contiguous, writable.
            offsets: byte offsets into `dst`, shape (n,); the records must neither overlap nor pass its end.

        Raises:
            IndexError: an index out of range.
            TypeError: no integers, or `dst` is no array, or holds references.
            ValueError: `dst` or `offsets` do not fit.
            CorruptRecordError: a record's bytes are not what was written.
        """
        if not isinstance(dst, np.ndarray):
            raise TypeError(f"dst: expected a NumPy array, found {type(dst).__name__}")
        if not (dst.flags.c_contiguous and dst.flags.writeable):
            raise ValueError("dst: expected a C-contiguous, writable array")
        self._core.gather(uint64_array(idxs, "idxs"), dst, uint64_array(offsets, "offsets"))

    def gather_rows(self, idxs: npt.NDArray[np.uint64], dst: npt.NDArray[Any]) -> None:
        """Decode record `idxs[i]` into row i of `dst`.

        `dst`: C-contiguous, writable, shape (n, ...). ValueError if it is not, or a record is not exactly one row long; other errors are
        those of `gather`.
        """
        self._core.gather_rows(idxs, dst)

    def rows(self, dtype: np.dtype[Any], item_shape: tuple[int, ...]) -> Rows:
        """A reader of the records as rows of new arrays, for a store whose records all have this dtype and shape."""
        return Rows(self._core, dtype, item_shape)

    def gather_packed(self, idxs: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """The records one after another as uint8, shape (bytes,), and their byte offsets, shape (n + 1,); errors are those of `gather`."""
        packed, offsets, _ = self._core.gather_packed(idxs)
        return packed, offsets

    def gather_shaped(
        self, idxs: npt.NDArray[np.uint64]
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.uint32] | None]:
        """As `gather_packed`, and rows as `shapes` gives them, shape (n, 8), None where the store has none; all three of one moment."""
        return self._core.gather_packed(idxs)

    def gather_items(
        self, index: object, dtype: np.dtype[Any]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], npt.NDArray[np.uint32] | None] | None:
        """As `gather_shaped`, in items of `dtype`; rows are None where none says anything.

        None if `index` must be looked at first, or the records are not all of whole items.
        """
        return self._core.gather_items(index, dtype)

    def lengths(self, idxs: npt.ArrayLike) -> npt.NDArray[np.uint32]:
        """The length in bytes of each record as a reader gets it, shape (n,). No record is read; IndexError for one that isn't there."""
        return self._core.lengths(uint64_array(idxs, "idxs"))

    def forms(self, idxs: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32] | None]:
        """What `lengths` and `shapes` give, None where the store has no shapes; both of one moment, and with their errors."""
        return self._core.forms(idxs)

    def shapes(self, idxs: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint32]:
        """The rows of the `.shape` file (`docs/format.md`), shape (n, 8); zeros where the store has none. Errors are those of `lengths`."""
        return self._core.shapes(idxs)

    def adopt_shapes(self, shapes: npt.NDArray[np.uint32], schema: bytes) -> None:
        """Give a store that keeps its shapes in the schema a `.shape` table: (len, 8) rows, and the schema without them."""
        self._core.adopt_shapes(shapes, schema)

    def delete(self, idxs: npt.ArrayLike) -> None:
        """Remove records; duplicates and any order are fine.

        From the highest index down, the last record takes the place of the removed one: the index of a survivor may change.
        The bytes stay on disk until `compact`.

        Raises:
            IndexError: an index out of range.
            StoreLockedError: another handle has the store open.
            PermissionError: as for `append`.
            Nothing was deleted when it raises one of these.
        """
        self._core.delete(uint64_array(idxs, "idxs"))

    def compact(self) -> None:
        """Reclaim the bytes of deleted records in place. Safe to interrupt: running it again finishes the job.

        StoreLockedError while another handle has the store open, PermissionError as for `append`, CorruptRecordError if a table entry can't
        be right: nothing was changed then.
        """
        self._core.compact()

    def stats(self) -> Stats:
        """Records, and in bytes: `live_bytes` that they take, `chunk_bytes` in the files, `reclaimable` by `compact` at most."""
        return self._core.stats()

    def memory(self) -> Memory:
        """What the store takes of this process's memory, and what all batches take, in bytes; see `loaderx.memory.Memory`."""
        return memory_of([self._core])

    def drop_resident(self) -> None:
        """Unmap the store's files, so that they leave RSS; see `DenseDataset.drop_resident`."""
        self._core.unmap()

    def begin_write(self) -> int:
        """Become the store's writer now rather than with the first write; returns the length.

        StoreLockedError if another handle is the writer. From here on only this handle changes the store.
        """
        return self._core.begin_write()

    def hold(self, what: str = "hold") -> int:
        """Become the store's writer, and keep every other handle off it until `release` or `close`; returns the length.

        For several calls that must not be seen in between. StoreLockedError, naming `what`, if another handle has the store open.
        """
        return self._core.hold(what)

    def release(self) -> None:
        """Let others open the store again after `hold`. Nothing to do where it isn't held."""
        self._core.release()

    def limit(self, length: int) -> int:
        """See no more than the first `length` records until the next `refresh`; returns how many are seen. A writer sees all it wrote."""
        return self._core.limit(length)

    def sync(self) -> None:
        """Make everything appended so far safe from a power cut."""
        self._core.sync()

    def refresh(self) -> int:
        """See what others appended since; returns the length. StaleStoreError if others moved records: reopen the store."""
        return self._core.refresh()

    def has_dict(self) -> bool:
        """Whether a zstd dictionary is installed."""
        return self._core.has_dict()

    def install_dict(self, dict_bytes: Bytes) -> int:
        """Install a dictionary (`build_dict`, `loaderx.utils.train_dict`) in a "zstd_dict" store; returns its size in bytes.

        TypeError for what is no bytes; ValueError for a store of another codec, for bytes that are no dictionary, and for another one than
        records were written with.
        """
        return self._core.install_dict(bytes(byte_array(dict_bytes, "dict_bytes")))

    def close(self) -> None:
        """Sync what this handle wrote and release files and locks. Closing twice is fine."""
        self._core.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"len={len(self)}, codec={self.codec!r}"
        return f"Zrecord({str(self.path)!r}, {state})"

    def __reduce__(self) -> tuple[Any, ...]:
        refuse_pickling_a_writer(self, self)
        return reopen, (self._absolute, self.codec, self._options)


def build_dict(samples: npt.NDArray[Any] | Bytes, sizes: npt.ArrayLike, target: int) -> bytes:
    """Train a zstd dictionary of at most `target` bytes.

    Args:
        samples: the sample records one after another: bytes, or a C-contiguous array.
        sizes: length in bytes of each sample, shape (n,).
        target: size limit in bytes.

    Raises:
        ValueError: the sizes do not add up to the samples.
        ZrecordError: the samples are too few or too small to train on.
    """
    return _core.build_dict(byte_array(samples, "samples"), uint64_array(sizes, "sizes"), target)


def byte_array(source: npt.NDArray[Any] | Bytes, name: str) -> npt.NDArray[Any]:
    """`source` as an array whose memory is the bytes meant. Nothing is copied."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return np.frombuffer(source, np.uint8)
    if not isinstance(source, np.ndarray):
        raise TypeError(f"{name}: expected a NumPy array or bytes, found {type(source).__name__}")
    if source.dtype.hasobject or source.dtype.kind == "T":
        raise TypeError(f"{name}: dtype {source.dtype} holds references, not bytes; give a fixed-width dtype")
    if not source.flags.c_contiguous:
        raise ValueError(f"{name}: expected a C-contiguous array; numpy.ascontiguousarray makes one")
    return source


def check_codec(codec: object) -> None:
    """ValueError for a name that is no codec, TypeError for what is no name."""
    if codec is None or (isinstance(codec, str) and codec in CODECS):
        return
    kind = ValueError if isinstance(codec, str) else TypeError
    raise kind(f"unknown codec {codec!r}: expected one of {', '.join(CODECS)}")


def create(path: Path, codec: str | None, level: int | None, schema: bytes | None) -> None:
    """Create a store unless another process is quicker."""
    try:
        Store.create(path, codec or "zstd", level=level, schema=schema).close()
    except FileExistsError:
        if not Store.exists(path):
            raise


def no_store(path: Path, reason: str) -> OSError:
    """The error that tells why nothing can be opened at `path`; permission errors are raised here."""
    try:
        path.stat()
    except FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, reason, str(path))
    if not path.is_dir():
        return NotADirectoryError(errno.ENOTDIR, "a store is a directory, and this is a file", str(path))
    return FileNotFoundError(errno.ENOENT, f"{reason}: the directory has no meta.zr", str(path))


def refuse_pickling_a_writer(owner: object, store: Zrecord) -> None:
    """TypeError for a handle that wrote: its copy would be a second writer of the same store."""
    if store.has_written:
        raise TypeError(
            f"cannot pickle this {type(owner).__name__}: it has written to {store.path}. "
            "Close it and open the store anew for reading"
        )


def reopen(path: Path, codec: str, options: dict[str, Any]) -> Zrecord:
    """What a pickled Zrecord becomes: it opens the store, and never creates one."""
    if not Store.exists(path):
        raise no_store(path, "the pickled store is gone")
    return Zrecord(path, codec, **options)
