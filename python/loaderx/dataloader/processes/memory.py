"""Anonymous shared memory: a descriptor and nothing else, so that nothing is left behind, however its users end."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile


def create(size: int) -> int:
    """A new segment of `size` bytes, all 0: its descriptor. Memory is taken as bytes are written."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("loaderx", os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor
    with tempfile.TemporaryFile(prefix="loaderx") as file:  # unlinked from the start, or as good as that
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error here, and a SIGBUS later
        else:
            os.ftruncate(file.fileno(), size)
        return os.dup(file.fileno())


def mapped(descriptor: int, size: int) -> mmap.mmap:
    """The segment as memory. It stays as long as the map; the descriptor may be closed."""
    if sys.version_info >= (3, 13):
        return mmap.mmap(descriptor, size, trackfd=False)
    return mmap.mmap(descriptor, size)
