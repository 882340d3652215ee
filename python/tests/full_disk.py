"""Two kinds of full disks: a file system of a few mebibytes, and a limit on the size of every file."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path


class SmallDisk:
    """A file system in memory, and a file on it that takes what space there is."""

    errno = errno.ENOSPC

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.ballast = path / "ballast"
        self.size = size

    def take_names(self) -> None:
        """Make files until no more can be made."""
        with contextlib.suppress(OSError):
            for number in range(100_000):
                self.ballast.with_suffix(f".{number}").touch(exist_ok=False)

    def fill(self, leave: int = 0) -> None:
        """Take all pages but for `leave` bytes."""
        left = shutil.disk_usage(self.path).free - leave
        with contextlib.suppress(OSError), self.ballast.open("ab", buffering=0) as file:
            while left > 0:
                left -= file.write(bytes(min(left, 4096)))

    def free(self) -> None:
        """Give the space and the names back."""
        for file in self.path.glob("ballast*"):
            file.unlink()


class SmallFiles:
    """A directory in which no file may grow, or be written to, beyond `size` bytes."""

    errno = errno.EFBIG

    def __init__(self, path: Path, size: int) -> None:
        self.path = path
        self.size = size
        self.before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, leave: int = 0) -> None:
        """From now on."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (leave or self.size, self.before[1]))

    def free(self) -> None:
        """No more."""
        resource.setrlimit(resource.RLIMIT_FSIZE, self.before)


Disk = SmallDisk | SmallFiles


@contextlib.contextmanager
def small_disk(path: Path, size: int, inodes: int = 4096) -> Iterator[SmallDisk | None]:
    """A file system of `size` bytes at `path`; None where it can't be mounted."""
    path.mkdir()
    options = f"size={size},nr_inodes={inodes}"
    if os.geteuid() != 0 or shutil.which("mount") is None:
        yield None
        return
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], capture_output=True, check=False)
    if mounted.returncode:
        yield None
        return
    try:
        yield SmallDisk(path, size)
    finally:
        subprocess.run(["umount", "-l", path], check=True)


@contextlib.contextmanager
def small_files(path: Path, size: int) -> Iterator[SmallFiles]:
    """A directory with a limit on files, in force from `fill` to `free`. Python ignores the signal that goes with it."""
    path.mkdir()
    files = SmallFiles(path, size)
    try:
        yield files
    finally:
        files.free()
