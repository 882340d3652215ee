"""A file system in user space: another directory's content, through a FUSE server of this file's own. It refuses every change.

The messages are those of linux/fuse.h: a request is a header of 40 bytes and its arguments, an answer a header of 16 bytes and the result.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from places import die_with_parent, mount, private_mounts
from support import fork

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH = 1, 2, 3, 14, 15, 17, 18, 25
INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 26, 27, 28, 29, 36, 42
CHANGES = {4, 6, 8, 9, 10, 11, 12, 13, 16, 21, 24, 35, 43, 45}  # setattr, links, nodes, renames, write, create, ...
SILENT = {FORGET, INTERRUPT, BATCH_FORGET}
SECONDS_VALID = 3600


class Refusal(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(os.strerror(number))
        self.number = number


class Server:
    """Answers for one mount, until it is gone."""

    def __init__(self, device: int, source: Path) -> None:
        self.device = device
        self.paths = {1: source}
        self.nodes = {source: 1}

    def run(self) -> None:
        while True:
            try:
                request = os.read(self.device, 1 << 17)
            except OSError:
                return
            _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
            if opcode in SILENT:
                continue
            try:
                error, result = 0, self.answer(opcode, node, request[40:])
            except Refusal as refusal:
                error, result = -refusal.number, b""
            except OSError as failure:
                error, result = -(failure.errno or errno.EIO), b""
            os.write(self.device, struct.pack("<IiQ", 16 + len(result), error, unique) + result)

    def answer(self, opcode: int, node: int, arguments: bytes) -> bytes:
        if opcode == INIT:
            return struct.pack("<4I2HI I2H8I", 7, 31, 1 << 16, 0, 16, 12, 4096, 1, 16, 0, *[0] * 8)
        if opcode in CHANGES:
            raise Refusal(errno.EROFS)
        path = self.paths[node]
        if opcode == LOOKUP:
            child = path / os.fsdecode(arguments.rstrip(b"\0"))
            attributes = self.attributes(child)
            return struct.pack("<4Q2I", self.node(child), 0, SECONDS_VALID, SECONDS_VALID, 0, 0) + attributes
        if opcode == GETATTR:
            return struct.pack("<Q2I", SECONDS_VALID, 0, 0) + self.attributes(path)
        if opcode in (OPEN, OPENDIR):
            if struct.unpack_from("<I", arguments)[0] & os.O_ACCMODE:
                raise Refusal(errno.EROFS)
            return struct.pack("<Q2I", 0, 0, 0)
        if opcode in (READ, READDIR):
            _, offset, size = struct.unpack_from("<QQI", arguments)
            return self.content(path, offset, size) if opcode == READ else self.entries(path, offset, size)
        if opcode == STATFS:
            return struct.pack("<5Q4I6I", 1, 0, 0, 1, 0, 4096, 255, 4096, 0, *[0] * 6)
        if opcode in (RELEASE, RELEASEDIR, FLUSH):
            return b""
        raise Refusal(errno.ENOSYS)

    def node(self, path: Path) -> int:
        found = self.nodes.setdefault(path, len(self.nodes) + 1)
        self.paths[found] = path
        return found

    def attributes(self, path: Path) -> bytes:
        found = path.stat()
        times = (int(found.st_atime), int(found.st_mtime), int(found.st_ctime), 0, 0, 0)
        sizes = (self.node(path), found.st_size, found.st_blocks)
        return struct.pack("<6Q10I", *sizes, *times, found.st_mode, 1, found.st_uid, found.st_gid, 0, 4096, 0)

    def content(self, path: Path, offset: int, size: int) -> bytes:
        with path.open("rb") as file:
            return os.pread(file.fileno(), size, offset)

    def entries(self, path: Path, offset: int, size: int) -> bytes:
        listed = b""
        for place, child in enumerate(sorted(path.iterdir())):
            name = os.fsencode(child.name)
            kind = stat.S_IFMT(child.stat().st_mode) >> 12
            entry = struct.pack("<2Q2I", self.node(child), place + 1, len(name), kind) + name
            entry += bytes(-len(entry) % 8)
            if place >= offset and len(listed) + len(entry) <= size:
                listed += entry
        return listed


@contextmanager
def mounted(source: Path, target: Path) -> Iterator[None]:
    """`source` seen at `target`, in this process's own mounts. OSError where that isn't permitted. For a process that ends soon."""
    private_mounts()
    device = os.open("/dev/fuse", os.O_RDWR)
    mount("loaderx-test", target, "fuse.loaderx-test", 0, f"fd={device},rootmode=40000,user_id=0,group_id=0")
    server = fork()
    if server == 0:
        try:
            die_with_parent()  # it keeps the mount alive, and whoever waits for an answer
            Server(device, source).run()
        finally:
            os._exit(0)
    os.close(device)
    try:
        yield
    finally:
        # With its server the file system is gone: nothing can wait for it for ever.
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
