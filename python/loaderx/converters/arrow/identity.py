"""What tables and datasets of pyarrow are known by."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator
from typing import Any

VIEWS = 2
"""Each slice of an array of views is written with the values of all; where that makes so many times more, a checksum isn't cheap."""
ABOUT = 1 << 16
"""Bytes that a batch may have beside its values."""


def of_table(table: Any) -> str | None:
    """A checksum of the schema and of all values, chunk by chunk, as Arrow's stream format has them.

    Of what a slice leaves out only those bytes count that fill its last block of 64: tables may be thought to differ that don't.
    """
    import pyarrow as pa

    digest = Digest()
    try:
        batches = table.to_batches()
        size = sum(pa.ipc.get_record_batch_size(batch) for batch in batches)
        if size > VIEWS * (table.get_total_buffer_size() + ABOUT * len(batches)):
            return None
        with pa.ipc.new_stream(pa.PythonFile(digest, "w"), table.schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
    except (pa.ArrowException, NotImplementedError):
        return None  # a type that streams don't have
    return digest.text.hexdigest()


class Digest:
    """A file that keeps nothing but a checksum of what is written."""

    closed = False

    def __init__(self) -> None:
        self.text = hashlib.sha256()

    def write(self, content: Any) -> int:
        """Take it in."""
        self.text.update(content)
        return len(content)

    def flush(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""


def of_dataset(dataset: Any) -> str | None:
    """A digest of its files, with sizes and times of change, and of how they are read.

    None where it isn't of files alone, where a file system doesn't tell those, or for a filter, whose fragments aren't to be had.
    """
    text = hashlib.sha256()
    try:
        for leaf in leaves(dataset):
            for one in described(leaf):
                text.update(len(one).to_bytes(8, "little") + one)
    except (UnknownError, ValueError, TypeError, AttributeError, NotImplementedError, pickle.PicklingError):
        return None
    return text.hexdigest()


class UnknownError(Exception):
    """Nothing tells what a dataset is."""


def leaves(dataset: Any) -> Iterator[Any]:
    """The datasets that a union is of, or the one itself."""
    list(dataset.get_fragments())  # ValueError for a filter, which children don't know of
    if not hasattr(dataset, "children"):
        yield dataset
        return
    for child in dataset.children:
        yield from leaves(child)


def described(dataset: Any) -> Iterator[bytes]:
    """A dataset of files, in words. Pickles are written here, and never read."""
    import pyarrow.fs as fs

    if not hasattr(dataset, "files"):
        raise UnknownError
    for info in dataset.filesystem.get_file_info(dataset.files):
        if info.type != fs.FileType.File or info.size is None or info.mtime_ns is None:
            raise UnknownError
        yield f"{dataset.filesystem.type_name}\0{info.path}\0{info.size}\0{info.mtime_ns}".encode()
    for fragment in dataset.get_fragments():
        # A fragment of a Parquet file may be of some of its row groups.
        groups = [group.id for group in fragment.row_groups] if hasattr(fragment, "row_groups") else None
        yield f"{fragment.path}\0{groups}".encode()
        yield pickle.dumps((fragment.format, fragment.partition_expression))
