"""Memory that stores and batches take: what of it is the system's page cache, and what is taken."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from loaderx._core import Store, batch_memory


class Memory(TypedDict):
    """What stores and batches take, in bytes. RSS has `resident`, `batches` and `kept`; only the last two are memory that is taken.

    `resident` is file-backed: pages of the page cache that this process has read through a map. All processes share them (PSS counts each
    process's part), and the system takes them back whenever it needs memory, without writing anything.
    """

    mapped: int
    """Address space that shows files of these stores. 0 before the first read, and with `io="pread"`."""
    resident: int | None
    """The part of `mapped` that is in RSS (`RssFile`; `RssShmem` on a tmpfs). None where the system doesn't tell (it does on Linux)."""
    batches: int
    """Anonymous memory of batches that somebody has, or that wait in loaders: of the whole process, blocks of 64 KiB and more."""
    kept: int
    """Anonymous memory of batches that are gone, kept two seconds for the next ones: of the whole process."""


def memory_of(stores: Iterable[Store]) -> Memory:
    """The memory of these stores together, and that of all batches."""
    mappings = [store.mapping() for store in stores]
    resident = [mapping["resident"] for mapping in mappings]
    held = batch_memory()
    return Memory(
        mapped=sum(mapping["mapped"] for mapping in mappings),
        resident=None if None in resident else sum(known for known in resident if known is not None),
        batches=held["in_use"],
        kept=held["kept"],
    )
