"""Multi-stream datasets: a directory whose children are stores of equally many records."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from loaderx.arguments import add_note
from loaderx.closing import Closing
from loaderx.dataset import pending, settle
from loaderx.dataset.changing import Changing
from loaderx.dataset.index import Indices, indices
from loaderx.dataset.integrity import CHECKING, Report, verify
from loaderx.dataset.ragged import RaggedDataset
from loaderx.dataset.streams import Stream, checked_records, close_all, equal_length, found, held, named, opened
from loaderx.memory import Memory, memory_of
from loaderx.progress import Progress, telling
from loaderx.zrecord import (
    CorruptStoreError,
    Io,
    PathLike,
    StaleStoreError,
    Verify,
    Zrecord,
    ZrecordError,
    refuse_pickling_a_writer,
)


class MSDataset(Closing):
    """Several streams whose record i belong together: `ds["image"]` is a dataset, `ds.streams` is what a DataLoader takes.

    `append` and `delete` change every stream at the same indices, all or nothing; change the streams only through them.

    A writer that is killed in a delete has said what it was about, and opening finishes that. One that is killed in an append may leave
    streams that are longer than others: opening says by how much, and `MSDataset.repair` cuts them. While a writer is at work, opening
    and `refresh` see the records that all streams have already.

    Args:
        path: directory of the streams.
        names: names of the streams (child directories), in the order wanted. None: every child with a `schema.msgpack`, sorted.
            A dataset without some of the streams can be read; appending and deleting need all of them.
        verify, io, read_only: as for `DenseDataset`.

    Raises:
        FileNotFoundError: no directory, or no streams in it.
        ValueError: the streams hold unequally many records, and nobody is writing.
        StoreLockedError: somebody is deleting or compacting.
        ZrecordError: an unfinished delete, and no permission to finish it.
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
        self._absolute = self.path.absolute()
        self._options: dict[str, Any] = {"verify": verify, "io": io, "read_only": read_only}
        self._streams: dict[str, Stream] = {}
        self._changing = Changing()
        try:
            self._open(named(self.path, names))
            self._length = self._common_length()
            self._show(self._length)
        except BaseException:
            self.close()
            raise

    def _open(self, names: list[str]) -> None:
        """Open the streams, and finish a change that was cut. What is under way can't change while they are open."""
        options = dict(self._options)
        while True:
            self._streams = opened(self.path, names, options)
            if pending.read(self._absolute) is None:
                return
            if options["read_only"]:
                error = settle.unfinished(self._absolute)
                if error is None:
                    return
                raise error
            self.close()
            try:
                settle.finish(self._absolute)
            except OSError as error:
                if not settle.lacks_permission(error):
                    raise
                options["read_only"] = True

    def _common_length(self) -> int:
        """The number of records that all streams have. ValueError if some have more, unless a writer is about to bring the others."""
        for _ in range(2):
            lengths = self._lengths()
            if len(set(lengths.values())) == 1 or any(s._store.has_writer for s in self._streams.values()):
                return min(lengths.values())
            # It was perhaps here until just now.
            for stream in self._streams.values():
                stream.refresh()
        return equal_length(self.path, self._lengths())

    def _lengths(self) -> dict[str, int]:
        return {name: len(stream) for name, stream in self._streams.items()}

    def _show(self, length: int) -> None:
        """Let every stream show the same number of records."""
        for stream in self._streams.values():
            stream._store.limit(length)

    @property
    def names(self) -> list[str]:
        """The names of the streams."""
        return list(self._streams)

    @property
    def streams(self) -> dict[str, Stream]:
        """Name -> dataset, in the order of `names`."""
        return dict(self._streams)

    def __getitem__(self, name: str) -> Stream:
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
            ValueError: the streams are of unequal length, or the dataset was opened without some of them.
            StoreLockedError: another handle is the writer of a stream.
            If writing a stream fails, the records that earlier streams already got are deleted again, and the error is raised.
            Where they can't be (somebody else has such a stream open, or the disk is full), a note on the error says so, and
            `repair` cuts them.
        """
        checked = checked_records(self._streams, records)
        with self._change():
            self._begin_write()
            first = self._write(checked)
            self._length = equal_length(self.path, self._lengths())
        return first

    @contextlib.contextmanager
    def _change(self) -> Iterator[None]:
        """One change at a time: what two threads append must not end up in another order in another stream."""
        with self._changing.lock():
            yield

    def _begin_write(self) -> None:
        """Become the writer of every stream before the first is written to, so that none can turn out to be locked or longer midway."""
        first = not all(store.has_written for store in self._stores().values())
        if first:
            self._refuse_without_some("append")
        lengths = {name: store.begin_write() for name, store in self._stores().items()}
        self._length = equal_length(self.path, lengths)
        if first:
            pending.tidy(self._absolute)

    def _refuse_without_some(self, what: str) -> None:
        """ValueError if the directory has streams that this dataset doesn't: the change would part them from the others."""
        left_out = [name for name in found(self._absolute) if name not in self._streams]
        if left_out:
            raise ValueError(
                f"{what}: {self.path} has the streams {left_out} too, and this dataset was opened without them; "
                "their records would no longer belong to those of the others"
            )

    def _write(self, checked: Mapping[str, Any]) -> int:
        first = self._length
        try:
            for name, stream in self._streams.items():
                stream._write(checked[name])
        except BaseException as error:
            self._take_back(first, error)
            raise
        return first

    def _take_back(self, length: int, error: BaseException) -> None:
        """Delete what streams got from `length` on, which nobody but this dataset can have written.

        Their own lengths tell: Ctrl-C can come right after a stream was written to.
        """
        for name, store in self._stores().items():
            try:
                if len(store) > length:
                    store.delete(np.arange(length, len(store), dtype=np.uint64))
            except (ZrecordError, OSError, ValueError) as failure:  # ValueError: another thread closed it
                add_note(error, f"stream {name!r} keeps records from {length} on that the others lack: {failure}")

    def delete(self, index: Any) -> None:
        """Remove the selected records from every stream; see `DenseDataset.delete`.

        All or nothing, also when the process is killed: opening the dataset again finishes what was begun.

        Raises:
            StoreLockedError: another handle has a stream open. Nothing was changed, and no stream can be opened meanwhile.
            ValueError: the streams are of unequal length, or the dataset was opened without some of them.
            OSError, ZrecordError: as for `DenseDataset.delete`. If a stream was changed already, this dataset is closed.
        """
        self._delete(index)

    def _delete(self, index: Any, expected: Mapping[str, int] | None = None) -> None:
        """As `delete`; StaleStoreError if the streams are not of the `expected` generations."""
        with self._change(), held(self._stores(), "delete") as lengths:
            self._refuse_without_some("delete")
            if expected is not None and expected != self._generations():
                raise StaleStoreError(f"{self.path}: records were moved since they were looked at; nothing was deleted")
            self._length = equal_length(self.path, lengths)
            idxs = np.unique(indices(index, self._length))
            if idxs.size == 0:
                return
            for stream in self._streams.values():
                if isinstance(stream, RaggedDataset):
                    stream._adopt_listed_shapes()  # this can be refused, and later on nothing may be
                stream.sync()
            self._delete_everywhere(pending.Delete(self._length, idxs, self._generations()))
            self._length -= idxs.size

    def _delete_everywhere(self, change: pending.Delete) -> None:
        """Say what is to be done, do it, and only then let go of what was said."""
        try:
            pending.write(self._absolute, change)
            for store in self._stores().values():
                store.delete(change.indices)
            pending.remove(self._absolute)
        except BaseException as error:
            if not self._withdrawn(change):
                add_note(error, "the delete is not finished; opening the dataset with write permission finishes it")
                with contextlib.suppress(ZrecordError, OSError):
                    self.close()  # the streams no longer belong together
            raise

    def _withdrawn(self, change: pending.Delete) -> bool:
        """Whether no stream was changed, and none will be."""
        for name, store in self._stores().items():
            # One that closed itself has begun.
            if store.closed or store.generation != change.generations[name]:
                return False
        try:
            pending.remove(self._absolute)
        except OSError:
            return False
        return True

    def _stores(self) -> dict[str, Zrecord]:
        return {name: stream._store for name, stream in self._streams.items()}

    def _generations(self) -> dict[str, int]:
        return {name: store.generation for name, store in self._stores().items()}

    def compact(self) -> None:
        """Reclaim the bytes of deleted records in every stream; see `DenseDataset.compact`."""
        with self._change(), held(self._stores(), "compact"):
            for stream in self._streams.values():
                stream.compact()

    def memory(self) -> Memory:
        """What all streams take of this process's memory, and what batches take, in bytes; see `DenseDataset.memory`."""
        return memory_of(store._core for store in self._stores().values())

    def drop_resident(self) -> None:
        """Unmap the files of all streams, so that they leave RSS; see `DenseDataset.drop_resident`."""
        for store in self._stores().values():
            store.drop_resident()

    @classmethod
    def verify(
        cls, path: PathLike, names: Iterable[str] | None = None, *, progress: Progress | bool | None = None
    ) -> dict[str, Report]:
        """Read and check everything in each stream, as `loaderx.verify` does; nothing is changed.

        Whether the streams are of one length, and no delete is unfinished, is what opening the dataset checks.

        Args:
            path: directory of the streams.
            names: the streams to check. None: every child with a `schema.msgpack`.
            progress: called with (records done, records in all) of each stream in turn. True: a line on stderr that tells it.

        Returns:
            name -> what was found.

        Raises:
            As `loaderx.verify`.
        """
        with telling(progress, CHECKING) as tell:
            return {name: verify(Path(path) / name, progress=tell) for name in named(Path(path), names)}

    @classmethod
    def repair(cls, path: PathLike, names: Iterable[str] | None = None) -> dict[str, range]:
        """Bring the streams of a directory to one length: finish a delete that was cut, then cut all to the shortest.

        That drops what an append brought to some streams only. No other record is touched, and none that was synced in all of them.

        Args:
            path: directory of the streams.
            names: the streams that belong together. None: every child with a `schema.msgpack`.

        Returns:
            name -> the indices that were dropped, for each stream that was longer than the shortest.

        Raises:
            StoreLockedError: somebody has a stream open.
            PermissionError: a stream may not be written.
            FileNotFoundError, OSError, ZrecordError: a stream can't be opened; one whose files were cut needs `loaderx.repair` first.
        """
        return settle.repair(Path(path).absolute(), names)

    @classmethod
    def drop_damaged(cls, path: PathLike, *, progress: Progress | bool | None = None) -> Indices:
        """Read and check everything, and delete the records that are damaged in one stream from all of them.

        `loaderx.repair(..., drop_damaged=True)` on that stream alone would part its records from the others'. Nothing else here gives data
        up: keep a copy.

        Args:
            path: directory of the streams.
            progress: as for `verify`.

        Returns:
            The indices that the deleted records had, ascending.

        Raises:
            As `verify`, opening, and `delete`; StaleStoreError if somebody deleted meanwhile, CorruptStoreError for damage that is
            not that of records: nothing was deleted then.
        """
        with cls(path, read_only=True) as streams:
            expected = streams._generations()
        reports = cls.verify(path, progress=progress)
        for name, report in reports.items():
            others = report.problem_count - report.damaged.size
            if others:
                what = next(
                    (str(problem) for problem in report.problems if problem.record is None), "see MSDataset.verify"
                )
                raise CorruptStoreError(
                    f"{path}: stream {name!r} has {others} problems that are not those of records: {what}"
                )
        damaged: Indices = np.unique(np.concatenate([report.damaged for report in reports.values()]))
        if damaged.size:
            with cls(path) as streams:
                streams._delete(damaged, expected)
        return damaged

    def sync(self) -> None:
        """Make everything appended so far safe from a power cut."""
        for stream in self._streams.values():
            stream.sync()

    def refresh(self) -> int:
        """See what others appended since; returns the length.

        These are the records that all streams have: while a writer is between two streams, the longer ones don't show their last
        records yet.
        """
        with self._change():
            length = self._length
            try:
                for stream in self._streams.values():
                    stream.refresh()
                length = min(self._lengths().values())
            finally:
                self._show(length)
            self._length = length
        return length

    def close(self) -> None:
        """Close every stream. Closing twice is fine."""
        close_all(self._streams.values())

    def __repr__(self) -> str:
        return f"MSDataset({str(self.path)!r}, len={self._length}, streams={self.names})"

    def __reduce__(self) -> tuple[Any, ...]:
        for store in self._stores().values():
            refuse_pickling_a_writer(self, store)
        return reopen, (self._absolute, self.names, self._options)


def reopen(path: Path, names: list[str], options: dict[str, Any]) -> MSDataset:
    """What a pickled MSDataset becomes: it opens the same streams, and never creates one."""
    return MSDataset(path, names, **options)
