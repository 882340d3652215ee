"""The processes of a loader, as the loader sees them: the same as threads."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from typing import Any

from loaderx.dataloader.pipeline import JOIN_SECONDS, Options, running
from loaderx.dataloader.plan import Made, Plan
from loaderx.dataloader.processes import memory
from loaderx.dataloader.processes.channel import Greeting, Leash
from loaderx.dataloader.processes.handle import Worker
from loaderx.dataloader.processes.leases import KEPT
from loaderx.dataloader.processes.reader import read
from loaderx.dataloader.processes.sending import pickled
from loaderx.dataloader.processes.starting import method
from loaderx.dataloader.waiting import Waiting
from loaderx.dataloader.window import Window

TERM_SECONDS = 1.0
"""How long a worker that was told to end has for it, before it is killed."""


class Processes(Waiting):
    """Batches of the steps from `first_step` on, made ahead by `workers` processes; worker w makes the steps s with s mod workers = w.

    At most `workers + ahead` steps are begun or done and not yet taken. A thread takes in what the workers send.

    Raises:
        TypeError: a part of the plan doesn't pickle.
        OSError: no descriptors are left, or this system can't send them from process to process.
    """

    def __init__(self, plan: Plan, first_step: int, options: Options) -> None:
        if not hasattr(socket, "send_fds"):
            raise OSError("worker_type='process': this system can't share memory that has no name; use 'thread'")
        super().__init__(first_step, Window(options, options.memory, plan.expected_bytes))
        workers, window = options.workers, self.window.most
        self.plan = plan
        self._pickled = pickled(plan)
        self._first = first_step
        self._method = options.start_method
        self._leash = Leash()
        kept = KEPT + window
        self._workers = [Worker(number, workers, first_step, kept, kept + window + 1) for number in range(workers)]
        self._reader = threading.Thread(
            target=read, args=(self, self._workers, self._leash), name="loaderx-reader", daemon=True
        )

    def start(self) -> None:
        """Start the processes, and wait for none of them."""
        running.add(self)
        how = method(self._method)
        plan = memory.create(len(self._pickled))
        try:
            with open(plan, "wb", closefd=False) as file:
                file.write(self._pickled)
            for worker in self._workers:
                greeting = Greeting.pack(
                    worker.number, len(self._workers), self._first, worker.slots, len(self._pickled), self.process
                )
                worker.start(how, greeting, self._leash.reader, plan)
            self._reader.start()
        except BaseException:
            self.stop()
            raise
        finally:
            os.close(plan)

    def begin(self, step: int) -> None:
        """Let the step's worker go on."""
        worker = self._workers[step % len(self._workers)]
        worker.control.limit = step + 1
        worker.socket.wake()

    def lost(self, step: int) -> Made | None:
        """An error, if the step's worker is gone."""
        worker = self._workers[step % len(self._workers)]
        return worker.died(step) if worker.ended else None

    def first_lost(self) -> int | None:
        """The lowest step whose worker is gone."""
        steps = [worker.next_step for worker in self._workers if worker.ended and worker.next_step < self._issued]
        return min(steps, default=None)

    def release(self, step: int) -> None:
        """Forget the result of `step`, which the consumer has, and let another be begun."""
        worker = self._workers[step % len(self._workers)]
        if worker.ended:
            worker.next_step = max(worker.next_step, step + len(self._workers))
        super().release(step)

    @property
    def shared_bytes(self) -> int:
        """Shared memory by which the workers hand batches over."""
        return sum(worker.shared_bytes for worker in self._workers)

    def stop(self) -> None:
        """Let the processes end; a transform has half a second. Does not wait, so it may be called from anywhere.

        In a forked child it leaves them alone: they are the parent's.
        """
        super().stop()
        if os.getpid() == self.process:
            self._leash.pull()

    def join(self, seconds: float = JOIN_SECONDS) -> None:
        """Wait for the processes to end, and end those that don't."""
        if os.getpid() != self.process:
            return
        left = [worker.process for worker in self._workers if worker.process is not None]
        left = ended_in(seconds, left)
        for process in left:
            process.terminate()
        left = ended_in(TERM_SECONDS, left)
        for process in left:
            process.kill()
        ended_in(TERM_SECONDS, left)
        if self._reader.ident is not None and self._reader is not threading.current_thread():
            self._reader.join(seconds)


def ended_in(seconds: float, processes: list[Any]) -> list[Any]:
    """Wait for processes to end, and reap them. Those that did not end in time."""
    deadline = time.monotonic() + seconds
    while processes:
        poller = select.poll()
        for process in processes:
            poller.register(process.sentinel, select.POLLIN)
        ended = dict(poller.poll(max(0.0, deadline - time.monotonic()) * 1000))
        if not ended:
            break
        for process in processes:
            if process.sentinel in ended:
                process.join(TERM_SECONDS)
        processes = [process for process in processes if process.sentinel not in ended]
    return processes
