"""What opening several streams does with a change that was cut, and how they are mended."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from loaderx._core import Store
from loaderx.dataset import pending
from loaderx.dataset.streams import POLL, close_all, held, named, opened
from loaderx.zrecord import StoreLockedError, Zrecord, ZrecordError, no_store

PATIENCE = 2.0
"""Seconds that readers are waited for, which look at an unfinished change and go."""
MENDING = 120.0
"""Seconds that another process is waited for which finishes the same change."""


def unfinished(directory: Path) -> ZrecordError | None:
    """The error for whoever can't finish the change that is under way; None if there is none, or all streams have done it.

    The caller has the streams open, so nobody else can change that meanwhile.
    """
    content = pending.read(directory)
    if content is None:
        return None
    change = pending.decode(content, directory / pending.FILE)
    with contextlib.ExitStack() as stack:
        stores = open_stores(directory, change, stack, read_only=True)
        waiting = change.waiting(directory, stores)
    if not waiting:
        return None
    return ZrecordError(
        f"{directory}: unfinished delete: the streams {waiting} still have the records that were to go from all streams; "
        "open it once with write permission to finish it"
    )


def finish(directory: Path) -> None:
    """Finish the change that a process was killed in, if there is one. Of several processes one does it, and the others wait.

    The caller has none of the streams open. StoreLockedError while somebody is at work on them, OSError without write permission;
    nothing was changed then.
    """
    file = directory / pending.FILE
    while True:
        with claimed(file) as there:
            if there is None:
                return
            if there:
                finish_claimed(directory)


def finish_claimed(directory: Path) -> None:
    """Do what is left to do. The caller has claimed the file."""
    content = pending.read(directory)
    if content is None:
        return
    change = pending.decode(content, directory / pending.FILE)
    with contextlib.ExitStack() as stack:
        stores = open_stores(directory, change, stack, read_only=False)
        stack.enter_context(held(stores, "finishing a delete", PATIENCE))
        if pending.read(directory) != content:
            return  # its own process was still at work, and is done now
        for name in change.waiting(directory, stores):
            stores[name].delete(change.indices)
        pending.remove(directory)


@contextlib.contextmanager
def claimed(file: Path) -> Iterator[bool | None]:
    """Have the file alone among those who would finish what it says. None: it is gone; False: it is another one by now."""
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_NONBLOCK)
    except FileNotFoundError:
        yield None
        return
    try:
        wait_for_lock(descriptor, file)
        yield is_at(descriptor, file)
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # also where a forked child has the descriptor
    finally:
        os.close(descriptor)


def wait_for_lock(descriptor: int, file: Path) -> None:
    """Lock the open file. StoreLockedError if another process has it for longer than `MENDING`."""
    start = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() - start > MENDING:
                raise StoreLockedError(
                    f"{file}: another process finishes this delete, and takes long; try again later"
                ) from None
            time.sleep(POLL)
        else:
            return


def is_at(descriptor: int, file: Path) -> bool:
    """Whether the open file is the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def open_stores(
    directory: Path, change: pending.Delete, stack: contextlib.ExitStack, read_only: bool
) -> dict[str, Zrecord]:
    """The stores that a change is about, closed with the stack."""
    stores: dict[str, Zrecord] = {}
    for name in change.generations:
        path = directory / name
        if not Store.exists(path):
            raise no_store(path, f"{pending.FILE} tells of an unfinished delete from this stream, and it is gone")
        stores[name] = stack.enter_context(Zrecord(path, read_only=read_only))
    return stores


def lacks_permission(error: OSError) -> bool:
    """Whether this is how an operating system says that nothing may be written here."""
    return error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)


def repair(directory: Path, names: Iterable[str] | None) -> dict[str, range]:
    """See `MSDataset.repair`."""
    names = named(directory, names)
    while True:
        finish(directory)
        streams = opened(directory, names, {})
        try:
            with held({name: stream._store for name, stream in streams.items()}, "repair") as lengths:
                if pending.read(directory) is not None:
                    continue  # somebody else was cut just now
                pending.tidy(directory)
                # A stream's length is never below what was synced in it, so a record that was synced in all of them lies before the end of
                # the shortest. What lies behind that is at the end of its stream: no record moves when it goes.
                shortest = min(lengths.values())
                dropped = {name: range(shortest, length) for name, length in lengths.items() if length > shortest}
                for name, records in dropped.items():
                    streams[name]._delete(np.arange(records.start, records.stop, dtype=np.uint64))
                return dropped
        finally:
            close_all(streams.values())
