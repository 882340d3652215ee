"""What dense and ragged datasets share: opening, checking, indexing, and the maintenance of the store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from loaderx._core import Store
from loaderx.closing import Closing
from loaderx.dataset import schema as schemas
from loaderx.dataset.dtypes import DType, described, storable
from loaderx.dataset.index import Indices, indices, single, wrap
from loaderx.dataset.schema import Kind, Schema, Shape
from loaderx.dataset.spelling import from_spelling, spelled
from loaderx.memory import Memory
from loaderx.older import refuse_older
from loaderx.zrecord import (
    Bytes,
    CorruptStoreError,
    Io,
    PathLike,
    Verify,
    Zrecord,
    check_codec,
    create,
    no_store,
    refuse_pickling_a_writer,
)

if TYPE_CHECKING:
    from loaderx._core import Stats

Record = TypeVar("Record")
Batch = TypeVar("Batch")
Checked = TypeVar("Checked")
Self = TypeVar("Self", bound="Dataset[Any, Any, Any]")

ITERATION_BYTES = 8 << 20
ITERATION_RECORDS = 1024


class Dataset(Closing, Generic[Record, Batch, Checked]):
    """Records of one dtype over one store; see `DenseDataset` and `RaggedDataset`."""

    kind: ClassVar[Kind]

    def __init__(
        self,
        path: PathLike,
        dtype: npt.DTypeLike | None = None,
        item_shape: Shape | None = None,
        codec: str | None = None,
        schema: Mapping[str, Any] | None = None,
        *,
        level: int | None = None,
        verify: Verify = "always",
        io: Io = "auto",
        read_only: bool = False,
    ) -> None:
        self.path = Path(path)
        self._absolute = self.path.absolute()
        self._options: dict[str, Any] = {"verify": verify, "io": io, "read_only": read_only}
        declared = None if dtype is None else storable(dtype)
        metadata = schemas.checked_metadata(schema)
        check_codec(codec)
        if not Store.exists(self.path):
            if read_only or declared is None or (self.kind == "dense" and item_shape is None):
                raise no_store(self.path, self._how_to_create(read_only))
            content = self._new_schema(declared, item_shape, codec, metadata)
            create(self.path, codec, level, content)
        refuse_older(self.path)
        found = schemas.read(self.path)
        self._check_declared(found, declared, item_shape, metadata)
        self._store = Zrecord(self.path, codec, level=level, **self._options)
        if self._store.codec != found.codec:
            self._store.close()
            raise CorruptStoreError(
                f"{self.path}: expected the codec of the header, {self._store.codec!r}, in {schemas.FILE}, found {found.codec!r}"
            )
        self._schema = found

    @classmethod
    def _new_schema(
        cls, dtype: DType, item_shape: Shape | None, codec: str | None, metadata: Mapping[str, Any]
    ) -> bytes:
        shape = None if item_shape is None else schemas.checked_item_shape(item_shape, dtype)
        return schemas.encode(Schema(cls.kind, dtype, codec or "zstd", item_shape=shape, metadata=metadata))

    def _how_to_create(self, read_only: bool) -> str:
        if read_only:
            return "there is no dataset to read"
        needed = "dtype= and item_shape=" if self.kind == "dense" else "dtype="
        return f"there is no dataset; to create one, give {needed}"

    def _check_declared(
        self, found: Schema, dtype: DType | None, item_shape: Shape | None, metadata: Mapping[str, Any]
    ) -> None:
        """ValueError where an argument contradicts the store."""
        if found.kind != self.kind:
            right = "DenseDataset" if found.kind == "dense" else "RaggedDataset"
            raise ValueError(
                f"{self.path}: expected a {self.kind} store, found a {found.kind} one; open it with {right}"
            )
        if dtype is not None and dtype != found.dtype:
            raise ValueError(
                f"{self.path}: expected dtype {described(dtype)}, found a store of {described(found.dtype)}"
            )
        if item_shape is not None:
            shape = schemas.checked_item_shape(item_shape, found.dtype)
            if shape != found.item_shape:
                raise ValueError(f"{self.path}: expected item_shape {shape}, found a store of {found.item_shape}")
        for key, value in metadata.items():
            if key not in found.metadata or schemas.pack(value) != schemas.pack(found.metadata[key]):
                known = schemas.shown(found.metadata.get(key, "no such key"))
                raise ValueError(f"{self.path}: schema: expected {key} = {schemas.shown(value)}, found {known}")

    @property
    def dtype(self) -> DType:
        """The dtype of every record."""
        return self._schema.dtype

    @property
    def codec(self) -> str:
        """The store's codec: "raw", "zstd" or "zstd_dict"."""
        return self._schema.codec

    @property
    def metadata(self) -> dict[str, Any]:
        """The user's own keys of `schema.msgpack`."""
        return dict(self._schema.metadata)

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._store.closed

    def __len__(self) -> int:
        return len(self._store)

    def __getitem__(self, index: Any) -> Any:
        one = single(index)
        if one is not None:
            return self._record(wrap(one, len(self)))
        return self._records(self._select(index))

    def __getitems__(self, index: Any) -> Batch:
        """The record set that `index` selects; an integer is a set of one."""
        return self._records(self._select(index))

    def _select(self, index: Any) -> Indices:
        return indices(index, len(self))

    @abstractmethod
    def _record(self, index: int) -> Record:
        """One record."""

    @abstractmethod
    def _records(self, idxs: Indices) -> Batch:
        """A record set, in the order of `idxs`."""

    def __iter__(self) -> Iterator[Any]:
        """Each record in order, up to the length at the start. Records are views of blocks that are read at once."""
        length = len(self)
        step = self._records_in(ITERATION_BYTES, length)
        for start in range(0, length, step):
            yield from self[start : min(start + step, length)]

    def _records_in(self, size: int, length: int) -> int:
        """About how many records `size` bytes hold."""
        if length == 0:
            return 1
        sample = np.linspace(0, length - 1, min(length, 64)).astype(np.uint64)
        mean = float(self._store.lengths(sample).mean())
        return int(min(ITERATION_RECORDS, max(1, size // max(mean, 1))))

    def lengths(self, index: Any) -> npt.NDArray[np.uint32]:
        """The bytes of each selected record before compression, shape (n,); n is 1 for an integer.

        IndexError for an index out of range, or a mask of another length; TypeError for what is no index.
        """
        return self._store.lengths(self._select(index))

    def append(self, records: Any) -> int:
        """Append one container of records in one native call; nothing is buffered or inferred.

        Records may be arrays of any package, and whatever says how it becomes an array (`docs/dtypes.md`).
        Arrays are stored from where they are, without a copy: what changes them meanwhile damages the record.

        Returns:
            The index of the first new record. When it returns, other handles see the records after their `refresh()`, and a killed
            process does not lose them; a power cut does until `sync()` or `close()`.

        Raises:
            TypeError: values that no store can hold: objects, variable-width strings, arrays in a device's memory.
            ValueError: another dtype, shape or rank than the store's; no records; a record over MAX_RECORD_LEN.
            UnsupportedCodecError: a "zstd_dict" store without its dictionary.
            StoreLockedError: another handle is the store's writer.
            PermissionError: the store may not be written.
            Nothing was written when it raises.
        """
        return self._write(self._check(records))

    @abstractmethod
    def _check(self, records: Any) -> tuple[int, Checked]:
        """The number of records, and the records ready to be written. Raises what `append` raises about its argument."""

    @abstractmethod
    def _write(self, checked: tuple[int, Checked]) -> int:
        """Append what `_check` returned; returns the first new index."""

    def delete(self, index: Any) -> None:
        """Remove the selected records; the index forms are those of reads.

        The last record takes the place of a removed one: live records are always exactly 0..len, and a survivor's index may change.

        Raises:
            IndexError, TypeError: as for `lengths`.
            StoreLockedError: another handle has the store open.
            PermissionError: the store may not be written.
            Nothing was deleted when it raises one of these.
        """
        idxs = self._select(index)
        if idxs.size:
            self._delete(idxs)

    def _delete(self, idxs: Indices) -> None:
        self._store.delete(idxs)

    def compact(self) -> None:
        """Reclaim the bytes of deleted records, in place. It may be interrupted, and run again.

        Raises:
            StoreLockedError: another handle has the store open.
            PermissionError: the store may not be written.
            CorruptRecordError: a table entry can't be right. Nothing was changed when it raises one of these.
        """
        self._store.compact()

    def stats(self) -> Stats:
        """Records, and in bytes: `live_bytes` that they take, `chunk_bytes` in the files, `reclaimable` by `compact` at most."""
        return self._store.stats()

    def memory(self) -> Memory:
        """What the store takes of this process's memory, and what all batches take, in bytes: why RSS is large (`docs/stores.md`).

        `mapped` bytes of its files are address space, `resident` of these are in RSS: page cache, not memory that is taken. `batches` and
        `kept` are anonymous: batches that somebody has, and free memory for the next ones, of the whole process.
        The system walks the page tables for it: some ten milliseconds where tens of GiB are resident.
        """
        return self._store.memory()

    def drop_resident(self) -> None:
        """Unmap the store's files, so that they leave RSS. They stay in the page cache, and the next read maps them again; views, and reads
        that are under way, keep what they have. It frees no memory: the system does that by itself. `io="pread"` never maps.
        """
        self._store.drop_resident()

    def has_dict(self) -> bool:
        """Whether a zstd dictionary is installed."""
        return self._store.has_dict()

    def install_dict(self, dict_bytes: Bytes) -> int:
        """Install a dictionary from `loaderx.utils.train_dict` in a "zstd_dict" store; returns its size in bytes.

        TypeError for what is no bytes; ValueError for a store of another codec, for bytes that are no dictionary, and for another one than
        records were written with.
        """
        return self._store.install_dict(dict_bytes)

    def sync(self) -> None:
        """Make everything appended so far safe from a power cut."""
        self._store.sync()

    def refresh(self) -> int:
        """See what others appended since; returns the length. StaleStoreError if others moved records: reopen the store."""
        return self._store.refresh()

    def close(self) -> None:
        """Sync what this handle wrote and release files and locks. Closing twice is fine."""
        self._store.close()

    def __repr__(self) -> str:
        length = "closed" if self.closed else f"len={len(self)}"
        shape = "" if self._schema.item_shape is None else f", item_shape={self._schema.item_shape}"
        return f"{type(self).__name__}({str(self.path)!r}, {length}, dtype={described(self.dtype)}{shape}, codec={self.codec!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        refuse_pickling_a_writer(self, self._store)
        declared: dict[str, Any] = {"dtype": spelled(self.dtype), "codec": self.codec}
        if self._schema.item_shape is not None:
            declared["item_shape"] = self._schema.item_shape
        return reopen, (type(self), self._absolute, declared | self._options)


def reopen(cls: type[Any], path: Path, options: dict[str, Any]) -> Any:
    """What a pickled dataset becomes: it opens the store, checks that it is the same kind of store, and never creates one."""
    if not Store.exists(path):
        raise no_store(path, "the pickled dataset is gone")
    return cls(path, **options | {"dtype": from_spelling(options["dtype"])})
