"""HDF5: the datasets of a file, or of a group in it, that have an axis of records."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from loaderx.converters.aligned import AlignedSource, Read
from loaderx.converters.finding import with_suffix
from loaderx.converters.formats.few_open import FewOpen
from loaderx.converters.formats.pieces import check_text, joined
from loaderx.converters.formats.splits import one_split
from loaderx.converters.source import CLASSES, TEXT, Array, Format, StreamSpec, Values
from loaderx.dataset.dtypes import storable
from loaderx.dataset.packed import Packed
from loaderx.dataset.schema import CORE_KEYS

MAGIC = b"\x89HDF\r\n\x1a\n"
CACHE = 32 << 20
"""Bytes of a dataset's chunks that are kept, for parts that end within one."""
SAMPLES = 32
"""Records that are looked at to tell how long those of a dataset are."""


class Open:
    """A file and the group in it, while it is open. The datasets that were read stay open with it: each keeps chunks."""

    def __init__(self, file: Path, group: str) -> None:
        import h5py

        self._datasets: dict[str, Any] = {}
        with h5_errors(str(file)):
            self._file = h5py.File(file, "r", rdcc_nbytes=CACHE)
            try:
                self.group = group_of(self._file, group, file)
            except BaseException:
                self._file.close()
                raise

    def dataset(self, path: str) -> Any:
        """A dataset of the group."""
        if path not in self._datasets:
            self._datasets[path] = self.group[path]
        return self._datasets[path]

    def close(self) -> None:
        """Close the file, and all that is of it."""
        self._file.close()


class Dataset:
    """One dataset."""

    sequential = False

    def __init__(self, files: FewOpen[Open], file: Path, dataset: Any, path: str, where: str) -> None:
        import h5py

        self._files, self._file, self._path, self._where = files, file, path, where
        if dataset.shape is None or dataset.shape == ():
            raise ValueError(f"{where}: expected an axis of records, found shape {dataset.shape}")
        if dataset.is_virtual or dataset.external:
            raise ValueError(f"{where}: its values are in other files, which are not followed; copy them into one file")
        self.rows = dataset.shape[0]
        self.chunk = dataset.chunks[0] if dataset.chunks else 1
        origin = f"dataset {path!r}"
        text = h5py.check_string_dtype(dataset.dtype)
        items = h5py.check_vlen_dtype(dataset.dtype) if text is None else None
        self._values: Callable[[Any], Values] = as_it_is
        if (text is not None and text.length is None) or items is not None:
            if len(dataset.shape) > 1:
                raise ValueError(f"{where}: values of any length in an array of shape {dataset.shape} are no records")
            dtype = np.dtype(np.uint8) if items is None else plain(items, where)
            self._values = joined if items is None else packed_lists(dtype)
            self.spec = StreamSpec(path, "ragged", dtype, None, origin, TEXT if items is None else simple(dataset))
            self.row_bytes = self._about(dataset)
        else:
            dtype = plain(dataset.dtype, where)
            base, inner = (dtype, ()) if dtype.subdtype is None else dtype.subdtype
            metadata = simple(dataset) | named_values(h5py.check_enum_dtype(dataset.dtype))
            shape = tuple(dataset.shape[1:]) + inner
            self.spec = StreamSpec(path, "dense", base, shape, origin, metadata)
            self.row_bytes = math.prod(shape) * base.itemsize

    def _about(self, dataset: Any) -> int:
        """About how many bytes a record has, on the high side."""
        with h5_errors(self._where):
            some = [dataset[at] for at in range(0, self.rows, max(1, self.rows // SAMPLES))]
        return 64 + 2 * sum(len(one) * getattr(one, "itemsize", 1) for one in some) // max(1, len(some))

    def reader(self, start: int) -> Read:
        """Any range; HDF5 reads for one thread at a time."""
        return self._read

    def _read(self, start: int, stop: int) -> Values:
        with h5_errors(f"{self._where}, records {start} to {stop - 1}"), self._files.reading(self._file) as opened:
            values = self._values(opened.dataset(self._path)[start:stop])
        if self.spec.metadata == TEXT and isinstance(values, Packed):
            return check_text(values, lambda at: f"{self._where}, record {start + at}")
        return values.astype(self.spec.dtype, copy=False) if isinstance(values, np.ndarray) else values


def plain(dtype: Any, where: str) -> np.dtype[Any]:
    """The dtype of values without h5py's notes. ValueError for one that no stream can hold."""
    base = dtype.base if dtype.subdtype is not None else dtype
    shape = dtype.shape if dtype.subdtype is not None else ()
    if base.kind not in "OV":
        base = np.dtype(base.str)
    try:
        storable(base)
    except TypeError as error:
        raise ValueError(f"{where}: no stream can hold its values: {error}") from error
    return np.dtype((base, shape)) if shape else base


def as_it_is(values: Any) -> Values:
    """An array."""
    found: Array = np.asarray(values)
    return found


def packed_lists(dtype: np.dtype[Any]) -> Callable[[Any], Packed]:
    """Lists of any length, which come as arrays."""

    def packed(values: Any) -> Packed:
        return Packed(np.concatenate([np.zeros(0, dtype), *values]).astype(dtype), offsets_of(values), None)

    return packed


def offsets_of(values: Any) -> Array:
    """Where each record begins."""
    return np.concatenate([[0], np.cumsum([len(one) for one in values], dtype=np.int64)]).astype(np.int64)


def named_values(names: Any) -> dict[str, Any]:
    """The names of an enumeration; also as a list of classes where its values are 0, 1, 2 and so on."""
    if not names:
        return {}
    values = {str(name): int(value) for name, value in names.items()}
    ordered = sorted(values, key=values.__getitem__)
    classes = {CLASSES: ordered} if [values[name] for name in ordered] == list(range(len(values))) else {}
    return {"enum": values} | classes


def simple(dataset: Any) -> dict[str, Any]:
    """The attributes that are one number or one text; HDF5's own are left out."""
    found: dict[str, Any] = {}
    with h5_errors(dataset.name):
        for name in dataset.attrs:
            value = dataset.attrs[name] if dataset.attrs.get_id(name).shape == () else None
            value = value.item() if isinstance(value, np.generic) else value
            own = name in (*CORE_KEYS, "CLASS", "NAME", *TEXT, CLASSES)
            if isinstance(value, (str, int, float)) and not own and is_text(f"{name}{value}"):
                found[str(name)] = value
    return found


def is_text(value: str) -> bool:
    """Whether what h5py gives as text was UTF-8: what wasn't comes with surrogates, which no metadata holds."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def h5_errors(where: str) -> Iterator[None]:
    """What h5py raises for a damaged file, as a ValueError that says where."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError) as error:
        if str(error).startswith(where.partition(":")[0]):
            raise
        raise ValueError(f"{where}: it can't be read: {error}") from error


def walked(
    files: FewOpen[Open], group: Any, path: str, file: Path, refused: dict[str, str], seen: set[Any]
) -> Iterator[Dataset]:
    """The datasets of a group and of the groups in it. Links into other files are not followed."""
    import h5py

    address = h5py.h5o.get_info(group.id).addr
    if address in seen:
        return
    seen.add(address)
    for name in group:
        here = f"{path}/{name}".strip("/")
        where = f"{file}: dataset {here!r}"
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            refused[here] = f"{where}: a link into {link.filename}, which is not followed; convert that file"
            continue
        with h5_errors(where):
            value = group.get(name)
        if isinstance(value, h5py.Group) and not isinstance(link, h5py.SoftLink):
            yield from walked(files, value, here, file, refused, seen)
        elif isinstance(value, h5py.Dataset):
            if h5py.h5o.get_info(value.id).fileno != h5py.h5o.get_info(group.id).fileno:
                refused[here] = (
                    f"{where}: a link that leads into {value.file.filename}, which is not followed; convert that file"
                )
                continue
            try:
                yield Dataset(files, file, value, here, where)
            except ValueError as error:
                refused[here] = str(error)


def group_of(opened: Any, path: str, file: Path) -> Any:
    """The group at a path, which no link leads to. ValueError if there is none."""
    import h5py

    group = opened
    for name in filter(None, path.split("/")):
        if name not in group or not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{file}: group: there is no group {path!r}")
        group = group[name]
        if not isinstance(group, h5py.Group):
            raise ValueError(f"{file}: group: {path!r} is a dataset; only=[{path!r}] takes just that")
    return group


def source(files: Sequence[Path], *, group: str = "/", only: Sequence[str] | None = None) -> AlignedSource:
    """The datasets of all files."""
    opened = FewOpen(partial(Open, group=group), Open.close)
    try:
        refused: dict[str, str] = {}
        tables = []
        for file in files:
            with h5_errors(str(file)), opened.reading(file) as one:
                tables.append(list(walked(opened, one.group, "", file, refused, set())))
        return AlignedSource(files, tables, refused, only, opened.close)
    except BaseException:
        opened.close()
        raise


def finds(path: Path) -> list[Path]:
    """Files by their names, or a single one by its first bytes."""
    files = with_suffix(path, [".h5", ".hdf5", ".hdf", ".he5"])
    if not files and path.is_file():
        with path.open("rb") as file:
            return [path] if file.read(len(MAGIC)) == MAGIC else []
    return one_split(path, files)


FORMAT = Format("hdf5", "HDF5", finds, source, "h5py")
