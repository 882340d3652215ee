"""Arrays and iterables to stores: what is in memory, in a memory-mapped file or on its way, to a store.

Both write a new store. If they fail, they remove what they wrote; a process that is killed leaves the records written until then.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from loaderx import _core
from loaderx._core import Store
from loaderx.arguments import add_note
from loaderx.dataset import DenseDataset, Packed, RaggedDataset
from loaderx.dataset.dtypes import storable
from loaderx.dataset.foreign import array_of, has_buffer, speaks
from loaderx.dataset.packed import is_empty, offsets_of, refuse_packed
from loaderx.dataset.ragged import Prepared
from loaderx.dataset.schema import checked_metadata
from loaderx.dataset.shapes import ROW_WIDTH
from loaderx.utils.gain import Gain, Written, measured_dict
from loaderx.zrecord import PathLike, check_codec

Array = npt.NDArray[Any]
Kind = TypeVar("Kind", DenseDataset, RaggedDataset)

CHUNK_BYTES = 64 << 20
COPIED_BYTES = 8 << 20
"""The part of an array in another memory order that is copied at once."""

PACKED_BYTES = 24 << 20
"""The records of an iterator that are appended at once: so many that the disk begins with the first while the last are written."""

RECORD_OVERHEAD = 48
"""About what one such record takes besides its bytes."""


def from_numpy(
    path: PathLike,
    array: Any,
    codec: str = "zstd",
    dict_bytes: bytes | None = None,
    schema: Mapping[str, Any] | None = None,
) -> Written:
    """Write a stacked array as a new dense store: one record a row along axis 0, a 1-D array being scalars.

    The array is written from where it lies, in chunks of 64 MiB: a memory-mapped one is never in memory as a whole. One that is not
    C-contiguous is copied, 8 MiB at a time.

    Args:
        path: directory of the store; there must be none yet.
        array: shape (n, *item_shape): a NumPy array, or what speaks the buffer protocol, NumPy's array protocols or DLPack and lies in
            the CPU's memory. It is stored in the dtype that it has.
        codec: "zstd", "raw" or "zstd_dict".
        dict_bytes: dictionary for "zstd_dict". None: one is trained on `array` (tier "balanced"), which is all of the data, but for some
            records on which its gain is measured, as by `measured_dict`.
        schema: your own keys for `schema.msgpack`.

    Returns:
        The number of records written; its `gains` tell what a dictionary gains that was trained.

    Raises:
        FileExistsError: there is a store at `path`. Nothing of it was changed.
        TypeError, ValueError: arguments that do not fit, arrays in a device's memory. Nothing was written.
    """
    if isinstance(array, np.ma.MaskedArray) or not (speaks(array) or has_buffer(array)):
        raise TypeError(f"from_numpy: expected a NumPy array, found {type(array).__name__}")
    array = array_of(array, "from_numpy")
    if array.ndim == 0:
        raise ValueError("from_numpy: expected an array with an axis of records, found shape ()")
    check_dictionary(codec, dict_bytes)
    refuse_existing(path)
    gains: dict[str, Gain | None] = {}
    if codec == "zstd_dict" and dict_bytes is None:
        dict_bytes, gains[""] = measured_dict(array)
    with new_dataset(DenseDataset, path, array.dtype, array.shape[1:], codec, schema) as dataset:
        if dict_bytes is not None:
            dataset.install_dict(dict_bytes)
        chunk = CHUNK_BYTES if array.flags.c_contiguous else min(CHUNK_BYTES, COPIED_BYTES)
        step = max(1, chunk // max(1, array[:1].nbytes))
        for start in range(0, len(array), step):
            dataset.append(array[start : start + step])
    return Written(len(array), gains)


def from_iterator(
    path: PathLike,
    source: Iterable[Any],
    dtype: npt.DTypeLike,
    codec: str = "zstd",
    dict_bytes: bytes | None = None,
    schema: Mapping[str, Any] | None = None,
) -> int:
    """Write an iterable of records as a new ragged store; each record keeps its own shape.

    About 24 MiB of records are held at a time, or one that is larger. An iterator may reuse one buffer for all its records.

    Args:
        path: directory of the store; there must be none yet.
        source: arrays of `dtype` (as for `from_numpy`, of any package), bytes where that is uint8, or single texts where it is S or U.
            Or batches of them, each a `Packed`.
        dtype: the dtype of every record.
        codec: "zstd", "raw" or "zstd_dict".
        dict_bytes: dictionary for "zstd_dict", from `train_dict`: an iterator can't be read twice, so none is trained here.
        schema: your own keys for `schema.msgpack`.

    Returns:
        The number of records written.

    Raises:
        FileExistsError: there is a store at `path`. Nothing of it was changed.
        TypeError, ValueError: arguments or records that do not fit; the record is named. Nothing is left of what was written.
    """
    if isinstance(source, (str, bytes, bytearray, memoryview, Mapping)) or not isinstance(source, Iterable):
        raise TypeError(f"from_iterator: expected an iterable of records, found {type(source).__name__}")
    refuse_packed(source, "from_iterator", "an iterable of records or of packed batches ([packed])")
    check_dictionary(codec, dict_bytes)
    if codec == "zstd_dict" and dict_bytes is None:
        raise ValueError(
            "from_iterator: codec 'zstd_dict' needs dict_bytes: train a dictionary on the settled data with "
            "loaderx.utils.train_dict"
        )
    refuse_existing(path)
    with new_dataset(RaggedDataset, path, dtype, None, codec, schema) as dataset:
        if dict_bytes is not None:
            dataset.install_dict(dict_bytes)
        records = iter(source)
        begin = list(islice(records, 1))
        append = append_batches if begin and isinstance(begin[0], Packed) else append_records
        return append(dataset, chain(begin, records))


def append_records(dataset: RaggedDataset, records: Iterator[Any]) -> int:
    """Append records, of which a bounded number of bytes is held; returns how many there were."""

    def convert(record: Any, number: int) -> Array:
        return dataset._ready(record, f"from_iterator: record {number}")

    total = 0
    while count := append_next(dataset, records, convert, total):
        total += count
    return total


def append_next(
    dataset: RaggedDataset, records: Iterator[Any], convert: Callable[[Any, int], Array], first: int
) -> int:
    """Append the next records, of which number `first` is the first one; returns how many. Nothing of them is held afterwards."""
    values, starts, rows = _core.pack(records, dataset.dtype, convert, first, PACKED_BYTES, RECORD_OVERHEAD)
    if len(starts):
        dataset._write((len(starts), Prepared(values, starts, rows)))
    return len(starts)


def append_batches(dataset: RaggedDataset, batches: Iterable[Any]) -> int:
    """Append packed batches; returns how many records there were. Small ones are copied, and written together."""
    total = 0
    held = Held(dataset)
    for number, batch in enumerate(batches):
        if not isinstance(batch, Packed):
            found = type(batch).__name__
            raise TypeError(f"from_iterator: batch {number}: expected a Packed as the first one, found {found}")
        try:
            if is_empty(batch, "append"):
                continue
            count, prepared = dataset._check(batch)
        except (TypeError, ValueError) as error:
            add_note(error, f"in batch {number} of the source, whose record 0 is record {total}")
            raise
        held.add(count, prepared)
        total += count
    held.write()
    return total


class Held:
    """Batches that wait until they are worth an append."""

    def __init__(self, dataset: RaggedDataset) -> None:
        self._dataset = dataset
        self._batches: list[tuple[int, Prepared]] = []
        self._size = 0

    def add(self, count: int, batch: Prepared) -> None:
        """Append a batch of `count` records, perhaps later. The source may use its memory again."""
        assert isinstance(batch.records, np.ndarray)
        size = batch.records.nbytes + count * RECORD_OVERHEAD
        if size >= PACKED_BYTES // 8:
            self.write()
            self._dataset._write((count, batch))
            return
        self._batches.append((count, batch._replace(records=as_bytes(batch.records).copy())))
        self._size += size
        if self._size >= PACKED_BYTES:
            self.write()

    def write(self) -> None:
        """Append what is held."""
        if self._batches:
            self._dataset._write(joined(self._batches))
        self._batches, self._size = [], 0


def joined(batches: list[tuple[int, Prepared]]) -> tuple[int, Prepared]:
    """Batches of bytes as one."""
    counts = [count for count, _ in batches]
    values = [np.asarray(batch.records) for _, batch in batches]
    begin = offsets_of([part.nbytes for part in values])[:-1].astype(np.uint64)
    starts = [offset + np.asarray(batch.starts) for offset, (_, batch) in zip(begin, batches, strict=True)]
    rows = None
    if any(batch.rows is not None for _, batch in batches):
        plain = [np.zeros((count, ROW_WIDTH), np.uint32) for count in counts]
        rows = np.concatenate([p if b.rows is None else b.rows for p, (_, b) in zip(plain, batches, strict=True)])
    return sum(counts), Prepared(np.concatenate(values), np.concatenate(starts), rows)


def as_bytes(array: Array) -> Array:
    """A C-contiguous array as its bytes."""
    return array.reshape(-1).view(np.uint8) if array.nbytes else np.empty(0, np.uint8)


def check_dictionary(codec: str, dict_bytes: bytes | None) -> None:
    """ValueError for a dictionary that the codec does not use."""
    check_codec(codec)
    if dict_bytes is not None and codec != "zstd_dict":
        raise ValueError(f"dict_bytes: expected none for codec {codec!r}; only 'zstd_dict' has a dictionary")


def refuse_existing(path: PathLike) -> None:
    """FileExistsError if there is a store."""
    if Store.exists(path):
        raise FileExistsError(errno.EEXIST, "there is a store already; choose another path or remove it", str(path))


@contextmanager
def new_dataset(
    kind: type[Kind],
    path: PathLike,
    dtype: npt.DTypeLike,
    item_shape: tuple[int, ...] | None,
    codec: str,
    schema: Mapping[str, Any] | None,
) -> Iterator[Kind]:
    """A dataset that is created here, and by nobody else: FileExistsError if another process is quicker.

    On failure the files that were made go, and the directory if it was; parents that were made, and what was there before, stay.
    """
    directory = Path(path).absolute()
    content = kind._new_schema(storable(dtype), item_shape, codec, checked_metadata(schema))
    before = names(directory) if directory.is_dir() else None
    Store.create(directory, codec, schema=content).close()
    with kind(path) as dataset:
        dataset._store.begin_write()
        try:
            yield dataset
        except BaseException:
            dataset.close()
            with suppress(OSError):
                remove_made(directory, before)
            raise


def remove_made(directory: Path, before: set[str] | None) -> None:
    """Remove the files of `directory` that were not there before, and the directory itself if it was not (`before` is None)."""
    for name in sorted(names(directory) - (before or set()), key=lambda name: name != "meta.zr"):
        (directory / name).unlink()
    if before is None:
        directory.rmdir()


def names(directory: Path) -> set[str]:
    """The names in `directory`."""
    return {path.name for path in directory.iterdir()}
