"""Stores of loaderx 2.8, and directories of them, one a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from loaderx.converters.finding import hidden
from loaderx.converters.formats.loaderx2_layout import Table
from loaderx.converters.formats.loaderx2_store import Container, windows
from loaderx.converters.source import ITSELF, PART_BYTES, Block, Format, Part, StreamSpec
from loaderx.copying.block import cut
from loaderx.dataset.dtypes import described
from loaderx.older import is_version_2
from loaderx.zrecord import ZrecordError


class Containers:
    """One store, or several of equal length, which are then streams."""

    def __init__(self, directories: Sequence[Path]) -> None:
        if len(directories) != 1:
            raise ValueError(
                f"expected one store of loaderx 2, or one directory of them, found {len(directories)} "
                f"({directories[0]} and others): convert one after another"
            )
        directory = directories[0]
        paths = {ITSELF: directory} if is_version_2(directory) else streams_of(directory)
        self._containers = {name: Container(path) for name, path in paths.items()}
        lengths = {name: len(container) for name, container in self._containers.items()}
        if len(set(lengths.values())) != 1:
            raise ZrecordError(
                f"{directory}: expected streams of equal length, found {lengths}: convert each by itself, or those that belong together"
            )
        self._length = next(iter(lengths.values()))
        self.streams = [specified(name, container) for name, container in self._containers.items()]
        self.files = [file for container in self._containers.values() for file in container.files]

    @property
    def records(self) -> int:
        """The number of records."""
        return self._length

    def parts(self, start: int, names: Sequence[str]) -> Iterator[Part]:
        """About as many bytes as a part has, of all streams together."""
        containers = {name: self._containers[name] for name in names}
        for first, stop in windows(start, self.records):
            tables = {name: container.entries(first, stop) for name, container in containers.items()}
            sizes = [np.maximum(table["stored"], table["length"]).astype(np.int64) for table in tables.values()]
            for begin, end in cut(np.sum(sizes, axis=0), PART_BYTES):
                some = {name: table[begin:end] for name, table in tables.items()}
                yield partial(read, containers, first + begin, some)

    def close(self) -> None:
        """Nothing is held."""


def read(containers: Mapping[str, Container], first: int, tables: Mapping[str, Table]) -> Block:
    """The records of these entries."""
    return {name: container.read(first, tables[name]) for name, container in containers.items()}


def specified(name: str, container: Container) -> StreamSpec:
    """A store as a stream."""
    header = container.header
    kind = f"ragged, {header.rank}-dimensional" if header.item_shape is None else "dense"
    origin = f"{kind} {described(header.dtype)}, {header.codec}"
    if header.item_shape is None:
        return StreamSpec(name, "ragged", header.dtype, origin=origin)
    return StreamSpec(name, "dense", header.dtype, header.item_shape, origin)


def streams_of(directory: Path) -> dict[str, Path]:
    """The stores in a directory, by name."""
    children = sorted(child for child in directory.iterdir() if not hidden(child.relative_to(directory)))
    return {child.name: child for child in children if is_version_2(child)}


def finds(path: Path) -> list[Path]:
    """The directory itself, if it is a store or holds some."""
    return [path] if path.is_dir() and (is_version_2(path) or streams_of(path)) else []


FORMAT = Format("loaderx2", "a store of loaderx 2.8", finds, Containers)
