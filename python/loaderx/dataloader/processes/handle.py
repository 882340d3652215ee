"""A worker process, and what its consumer has of it."""

from __future__ import annotations

import multiprocessing
import os
import socket
from typing import Any

from loaderx.arguments import add_note
from loaderx.dataloader.plan import Made
from loaderx.dataloader.processes import memory
from loaderx.dataloader.processes.channel import Control, Message, first_step_of, pair
from loaderx.dataloader.processes.failures import Failure, died, restored
from loaderx.dataloader.processes.leases import Leases
from loaderx.dataloader.processes.packing import unpacked
from loaderx.dataloader.processes.starting import adopt, starting
from loaderx.dataloader.processes.worker import work

REAP_SECONDS = 1.0
"""How long the exit code of a process that is gone may be on its way."""


class Worker:
    """One worker: its process, its socket, its memory."""

    def __init__(self, number: int, workers: int, first_step: int, kept: int, slots: int) -> None:
        self.number = number
        self.slots = slots
        self.next_step = first_step_of(number, workers, first_step)
        """Of its steps, the first whose result hasn't come."""
        self.ended = False
        """Whether it will send nothing more."""
        self.process: Any = None
        self._workers = workers
        self._page: int | None = None
        self.socket, self._theirs = pair()
        self._page = memory.create(Control.size(slots))
        self.control = Control(self._page, slots)
        self._leases = Leases(self.control.slots, kept)

    def __del__(self) -> None:
        if self._page is not None:
            os.close(self._page)
            self._theirs.close()

    def start(self, method: str, greeting: bytes, leash: int, plan: int) -> None:
        """Start the process. The greeting waits for it in the socket."""
        assert self._page is not None
        socket.send_fds(self.socket, [greeting], [leash, self._page, plan])
        context: Any = multiprocessing.get_context(method)
        process = context.Process(target=work, args=(self._theirs,), name=f"loaderx-{self.number}", daemon=True)
        with starting(method):
            process.start()
        adopt(process)
        self.process = process
        self._theirs.close()  # so that its end is seen at ours

    @property
    def shared_bytes(self) -> int:
        """Shared memory of its slots, as far as they are known here."""
        return self._leases.mapped

    def take(self, message: Message, descriptor: int | None) -> Made:
        """The result that a message announces. Its arrays lie in the worker's slot and keep it."""
        self.next_step = message.step + self._workers
        try:
            self._leases.learn(message, descriptor)
            held = self._leases.hold(message)
        except BaseException as error:
            return unread(error, message.step, of_step=False)
        try:
            value = unpacked(held, message.tail, message.length)
        except BaseException as error:
            return unread(error, message.step, of_step=True)
        if isinstance(value, Failure):
            return Made(None, restored(value, message.step), of_step=value.of_step)
        return Made(*value)

    def died(self, step: int) -> Made:
        """What comes of a step when the process is gone."""
        self.process.join(REAP_SECONDS)
        error = died(step, self.process.pid, self.process.exitcode, started=self.control.begun)
        add_note(error, f"at step {step} of the DataLoader")
        return Made(None, error, of_step=False)


def unread(error: BaseException, step: int, *, of_step: bool) -> Made:
    """What comes of a step whose result is there and can't be read."""
    add_note(error, f"at step {step} of the DataLoader, when the result of a worker process was read")
    return Made(None, error, of_step=of_step)
