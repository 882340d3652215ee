"""What passes between the consumer and one worker.

- A control page in shared memory: the step that the worker must not reach yet, and a byte for each of its slots. The consumer
  writes them, whenever and wherever it likes (in a garbage collector's callback too): no lock, no system call, nothing that waits.
- A socket. Consumer -> worker: a greeting with the descriptors of everything shared, then bytes that wake it. Worker -> consumer:
  one message of fixed length for each result, with the descriptor of its slot's memory where that is new. Results themselves lie in
  the slot, so however large they are, no message waits for the other side to read.
- The leash, one pipe for all workers of a pipeline: something to read, or its end, means that all is over.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import time
from typing import NamedTuple

from loaderx.dataloader.processes import memory

BUSY, FREE, GONE = 0, 1, 2
"""A slot has a result that the consumer has not let go of, may be written again, or must not be (memory that a fork shared)."""

BEGUN, SLOTS = 8, 16
"""Where in the control page these begin, behind the limit."""

QUIET = getattr(socket, "MSG_NOSIGNAL", 0)
AT_ONCE = QUIET | getattr(socket, "MSG_DONTWAIT", 0)
RECEIVE = getattr(socket, "MSG_CMSG_CLOEXEC", 0)

Greeting = struct.Struct("<QQQQQQ")
"""worker, workers, first step, slots, bytes of the plan, the consumer's process id; with leash, control page and plan."""

Header = struct.Struct("<QQQQQ")


class Message(NamedTuple):
    """A result lies in a slot."""

    step: int
    slot: int
    capacity: int
    """Bytes of the slot's memory if that is new, and 0 if the consumer knows it."""
    tail: int
    """Where the description of the result begins; its arrays lie before that."""
    length: int


def first_step_of(worker: int, workers: int, first_step: int) -> int:
    """The first step from `first_step` on that this worker makes."""
    return first_step + (worker - first_step) % workers


class Control:
    """The control page of a worker."""

    def __init__(self, descriptor: int, slots: int) -> None:
        view = memoryview(memory.mapped(descriptor, self.size(slots)))
        self._limit = view[:BEGUN].cast("Q")
        self._begun = view[BEGUN:SLOTS]
        self.slots = view[SLOTS : SLOTS + slots]

    @staticmethod
    def size(slots: int) -> int:
        """Bytes of the page for so many slots."""
        return SLOTS + slots

    @property
    def limit(self) -> int:
        """Steps below may be made."""
        return self._limit[0]

    @limit.setter
    def limit(self, step: int) -> None:
        self._limit[0] = min(step, 2**64 - 1)

    @property
    def begun(self) -> bool:
        """Whether the worker has come as far as its first line."""
        return self._begun[0] == 1

    def begin(self) -> None:
        """Say so."""
        self._begun[0] = 1


class Leash:
    """The pipe that tells all workers, and a consumer that waits, that the pipeline has ended. Nobody reads what is written."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    def pull(self) -> None:
        """End everything. Never waits."""
        with contextlib.suppress(OSError):
            os.write(self._writer, b"\0")

    def __del__(self) -> None:
        os.close(self.reader)
        os.close(self._writer)


class Socket(socket.socket):
    """A socket that closes without a warning when its last user is gone: a thread may wait on it until then."""

    def __del__(self) -> None:
        self.close()

    def wake(self) -> None:
        """Let the worker look at its control page. Never waits: where there is no room, wake-ups are waiting already."""
        with contextlib.suppress(OSError):
            self.send(b"\0", AT_ONCE)

    def receive(self) -> tuple[Message, int | None] | None:
        """The next message and its descriptor; None at the end. Call it when there is something to read."""
        head, descriptors = b"", []
        while len(head) < Header.size:
            try:
                part, received, _, _ = socket.recv_fds(self, Header.size - len(head), 1, RECEIVE)
            except ConnectionResetError:
                part, received = b"", []
            descriptors += received
            if not part:
                for descriptor in descriptors:
                    os.close(descriptor)
                return None
            head += part
        return Message(*Header.unpack(head)), descriptors[0] if descriptors else None


def pair() -> tuple[Socket, socket.socket]:
    """The consumer's end, and the worker's, which multiprocessing can send."""
    ours, theirs = socket.socketpair()
    return Socket(ours.family, ours.type, ours.proto, fileno=ours.detach()), theirs


def send(channel: socket.socket, message: Message, descriptor: int | None) -> None:
    """Send a worker's message."""
    if descriptor is None:
        channel.sendall(Header.pack(*message), QUIET)
        return
    while True:
        try:
            socket.send_fds(channel, [Header.pack(*message)], [descriptor], QUIET)
            return
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:  # as many descriptors are under way as this user may have open
                raise
        time.sleep(0.01)
