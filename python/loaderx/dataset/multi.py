"""Multi-stream datasets: a directory whose children are stores of equally many records."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from loaderx._core import Store
from loaderx.arguments import add_note
from loaderx.closing import Closing
from loaderx.dataset import schema as schemas
from loaderx.dataset.dense import DenseDataset
from loaderx.dataset.index import indices
from loaderx.dataset.ragged import RaggedDataset
from loaderx.zrecord import Io, PathLike, Verify, ZrecordError, no_store

KINDS: dict[str, type[DenseDataset] | type[RaggedDataset]] = {"dense": DenseDataset, "ragged": RaggedDataset}


class MSDataset(Closing):
    """Several streams whose record i belong together: `ds["image"]` is a dataset, `ds.streams` is what a DataLoader takes.

    `append` and `delete` change every stream at the same indices. There are no files besides the streams' own, so a process that is
    killed between two streams leaves them unequal; opening then says by how much.

    Args:
        path: directory of the streams.
        names: names of the streams (child directories), in the order wanted. None: every child with a `schema.msgpack`, sorted.
        verify, io, read_only: as for `DenseDataset`.

    Raises:
        FileNotFoundError: no directory, or no streams in it.
        ValueError: the streams hold unequally many records.
        OSError, ZrecordError: a stream can't be opened.
    """

    def __init__(
        self,
        path: PathLike,
        names: Iterable[str] | None = None,
        *,
        verify: Verify = "always",
        io: Io = "auto",
        read_only: bool = False,
    ) -> None:
        self.path = Path(path)
        self._streams: dict[str, DenseDataset | RaggedDataset] = {}
        try:
            for name in self._find() if names is None else checked_names(names):
                stream = self.path / name
                if not Store.exists(stream):
                    raise no_store(stream, "there is no such stream")
                kind = KINDS[schemas.read(stream).kind]
                self._streams[name] = kind(stream, verify=verify, io=io, read_only=read_only)
            self._length = self._common_length()
        except BaseException:
            self.close()
            raise

    def _find(self) -> list[str]:
        names = sorted(child.name for child in self.path.iterdir() if (child / schemas.FILE).is_file())
        if not names:
            raise FileNotFoundError(
                errno.ENOENT, f"no streams: no child directory has a {schemas.FILE}", str(self.path)
            )
        return names

    def _common_length(self) -> int:
        lengths = {name: len(stream) for name, stream in self._streams.items()}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"{self.path}: expected streams of one length, found {lengths}")
        return next(iter(lengths.values()))

    @property
    def names(self) -> list[str]:
        """The names of the streams."""
        return list(self._streams)

    @property
    def streams(self) -> dict[str, DenseDataset | RaggedDataset]:
        """Name -> dataset, in the order of `names`."""
        return dict(self._streams)

    def __getitem__(self, name: str) -> DenseDataset | RaggedDataset:
        try:
            return self._streams[name]
        except (KeyError, TypeError):
            raise KeyError(f"no stream {name!r} in {self.path}: expected one of {self.names}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._streams

    __iter__ = None  # a dataset of records is not a mapping to walk: use `names` or `streams`

    def __len__(self) -> int:
        return self._length

    def append(self, records: Mapping[str, Any]) -> int:
        """Append equally many records to every stream.

        Args:
            records: name -> what the stream's own `append` takes; one entry for every stream.

        Returns:
            The index of the first new record, the same in every stream.

        Raises:
            TypeError, ValueError: names or values that do not fit; all are checked before the first stream is written.
            If writing a stream fails, the records that earlier streams already got are taken back, and the error is raised.
        """
        if not isinstance(records, Mapping):
            raise TypeError(f"append: expected a mapping of stream names to records, found {type(records).__name__}")
        missing = [name for name in self._streams if name not in records]
        unknown = [name for name in records if name not in self._streams]
        if missing or unknown:
            raise ValueError(
                f"append: expected an entry for each of the streams {self.names}; missing: {missing}, unknown: {unknown}"
            )
        checked: dict[str, Any] = {}
        for name, stream in self._streams.items():
            try:
                checked[name] = stream._check(records[name])
            except (TypeError, ValueError) as error:
                if type(error) in (TypeError, ValueError):
                    raise type(error)(f"stream {name!r}: {error}") from error
                add_note(error, f"in stream {name!r}")
                raise
        counts = {name: count for name, (count, _) in checked.items()}
        if len(set(counts.values())) != 1:
            raise ValueError(f"append: expected equally many records for every stream, found {counts}")
        self._begin_write()
        first = self._write(checked)
        self._length = self._common_length()
        return first

    def _begin_write(self) -> None:
        """Become the writer of every stream before the first is written to, so that none can turn out to be locked or longer midway."""
        for stream in self._streams.values():
            stream._store.begin_write()
        self._length = self._common_length()

    def _write(self, checked: Mapping[str, Any]) -> int:
        written: dict[str, range] = {}
        first = self._length
        try:
            for name, stream in self._streams.items():
                first = stream._write(checked[name])
                written[name] = range(first, first + checked[name][0])
        except BaseException as error:
            self._take_back(written, error)
            raise
        return first

    def _take_back(self, written: Mapping[str, range], error: BaseException) -> None:
        """Delete what the streams in `written` got after the others failed: exactly these records, which are their last."""
        for name, records in written.items():
            try:
                self._streams[name].delete(list(records))
            except (ZrecordError, OSError) as failure:
                add_note(
                    error,
                    f"stream {name!r} keeps records {records.start} to {records.stop} that the others lack: {failure}",
                )

    def delete(self, index: Any) -> None:
        """Remove the selected records from every stream; see `DenseDataset.delete`."""
        for stream in self._streams.values():
            stream._store.begin_delete()
        self._length = self._common_length()
        idxs = indices(index, self._length)
        done: list[str] = []
        try:
            for name, stream in self._streams.items():
                stream.delete(idxs)
                done.append(name)
        except BaseException as error:
            if done:
                rest = [name for name in self._streams if name not in done]
                add_note(error, f"the records are deleted from {done}, and still to be deleted from {rest}")
            raise
        self._length = self._common_length()

    def compact(self) -> None:
        """Reclaim the bytes of deleted records in every stream; see `DenseDataset.compact`."""
        for stream in self._streams.values():
            stream.compact()

    def sync(self) -> None:
        """Make everything appended so far safe from a power cut."""
        for stream in self._streams.values():
            stream.sync()

    def refresh(self) -> int:
        """See what others appended since; returns the length.

        ValueError if the streams are of unequal length just now, as they are while a writer is between two of them.
        """
        for stream in self._streams.values():
            stream.refresh()
        self._length = self._common_length()
        return self._length

    def close(self) -> None:
        """Close every stream. Closing twice is fine."""
        for stream in self._streams.values():
            stream.close()

    def __repr__(self) -> str:
        return f"MSDataset({str(self.path)!r}, len={self._length}, streams={self.names})"


def checked_names(names: Iterable[str]) -> list[str]:
    """Stream names as a list. TypeError for other than strings, ValueError for none or duplicates."""
    if isinstance(names, (str, bytes)):
        raise TypeError(f"names: expected a list of names, found {names!r}")
    found = list(names)
    for name in found:
        if not isinstance(name, str):
            raise TypeError(f"names: expected strings, found {name!r}")
    if not found:
        raise ValueError("names: expected at least one stream, found none")
    if len(set(found)) != len(found):
        raise ValueError(f"names: expected each stream once, found {found}")
    return found
