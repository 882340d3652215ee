"""Where a store may not be written to: forked children that change their user or their mounts before they look at it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import select
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import fork

NOBODY = 65534
CLONE_NEWNS, MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 1, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG = 1
PATIENCE = 90


def elsewhere(enter: Callable[[], None], work: Callable[[], None]) -> None:
    """Run `work` in a forked child after `enter`. What fails there fails here; where `enter` isn't permitted, the test is skipped."""
    reading, writing = os.pipe()
    child = fork()
    if child == 0:
        try:
            os.close(reading)
            os.write(writing, outcome(enter, work).encode()[-60000:])
        finally:
            os._exit(0)
    os.close(writing)
    try:
        told = heard(reading, child)
    finally:
        os.close(reading)
        os.waitpid(child, 0)
    if told.startswith("refused"):
        pytest.skip(told)
    if told != "done":
        pytest.fail(told or "the child died without a word", pytrace=False)


def outcome(enter: Callable[[], None], work: Callable[[], None]) -> str:
    try:
        enter()
    except OSError as error:
        return f"refused: this machine does not permit the place ({error})"
    try:
        work()
    except BaseException:
        return traceback.format_exc()
    return "done"


def heard(reading: int, child: int) -> str:
    parts: list[bytes] = []
    while True:
        if not select.select([reading], [], [], PATIENCE)[0]:
            os.kill(child, signal.SIGKILL)
            return f"the child took longer than {PATIENCE} s"
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts).decode(errors="replace")
        parts.append(part)


def stay() -> None:
    """No other place: the permissions are enough."""


def become_nobody() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def mount(source: str | None, target: Path, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else text.encode() for text in (source, str(target), kind, data)]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]):
        raise OSError(ctypes.get_errno(), f"mount {target}")


def private_mounts() -> None:
    """Mounts from here on are this process's own, and gone with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    mount(None, Path("/"), None, MS_REC | MS_PRIVATE)


def mount_read_only(root: Path) -> None:
    private_mounts()
    mount(str(root), root, None, MS_BIND)
    mount(None, root, None, MS_REMOUNT | MS_BIND | MS_RDONLY)


def each_path(root: Path) -> Iterator[Path]:
    yield root
    yield from sorted(root.rglob("*"))


def state(root: Path) -> dict[str, Any]:
    """Everything below `root` that a reader must not touch: names, identities, permissions, times, sizes and the bytes."""
    return {
        str(path.relative_to(root)): (
            *(
                getattr(path.stat(), f"st_{fact}")
                for fact in ("ino", "mode", "nlink", "uid", "size", "mtime_ns", "ctime_ns")
            ),
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else sorted(os.listdir(path)),  # noqa: PTH208
        )
        for path in each_path(root)
    }
