"""What is written anew: one store, or all streams of a directory."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

from loaderx._core import Store
from loaderx.closing import Closing
from loaderx.copying.place import streams_of
from loaderx.copying.snapshot import Snapshot
from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset
from loaderx.zrecord import PathLike, Zrecord, no_store

Source: TypeAlias = PathLike | DenseDataset | RaggedDataset | MSDataset | Zrecord


class Origin(Closing):
    """The records of a source at one moment. As long as it is open, none is deleted or moved, and what is appended is not looked at.

    `streams`: name -> its records, all of one length; where the source is one store, that is under the name "".
    """

    def __init__(self, source: Source) -> None:
        self.path, names = place_of(source)
        self.streams: dict[str, Snapshot] = {}
        self._open = ExitStack()
        try:
            if names is None:
                self._add("", None)
            else:
                # It knows which records all streams have, and finishes or refuses what was cut.
                together = self._open.enter_context(MSDataset(self.path, names or None, read_only=True))
                for name in together.names:
                    self._add(name, len(together))
        except BaseException:
            self.close()
            raise

    def _add(self, name: str, length: int | None) -> None:
        self.streams[name] = self._open.enter_context(Snapshot(self.path / name, length))

    def __len__(self) -> int:
        return min(map(len, self.streams.values()))

    def close(self) -> None:
        """Let go of all stores."""
        self._open.close()


def place_of(source: Source) -> tuple[Path, list[str] | None]:
    """The directory of a source, and the names of its streams; no names are all of them, None is a store. FileNotFoundError for nothing."""
    if isinstance(source, (DenseDataset, RaggedDataset)):
        return source._absolute, None
    if isinstance(source, Zrecord):
        return source._absolute, None
    if isinstance(source, MSDataset):
        return source._absolute, source.names
    path = Path(source)
    if Store.exists(path):
        return path, None
    if not streams_of(path):
        raise no_store(path, "there is no store")
    return path, []
