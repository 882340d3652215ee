"""The thread that takes in what workers send. A thread of its own, because an interrupt (Ctrl-C) only comes to the main one: it could
strike there between a message's end in the socket and its beginning in the results.
"""

from __future__ import annotations

import select
from collections.abc import Sequence

from loaderx.dataloader.processes.channel import Leash
from loaderx.dataloader.processes.handle import Worker
from loaderx.dataloader.waiting import Waiting


def read(pipeline: Waiting, workers: Sequence[Worker], leash: Leash) -> None:
    """Take results in until the leash is pulled. A worker that will send nothing more is marked as ended."""
    sockets = {worker.socket.fileno(): worker for worker in workers}
    # A child of the worker's own may keep the socket open; a process that is gone sends nothing all the same.
    sentinels = {worker.process.sentinel: worker for worker in workers}
    poller = select.poll()
    for descriptor in (leash.reader, *sockets, *sentinels):
        poller.register(descriptor, select.POLLIN)
    try:
        while leash.reader not in (ready := dict(poller.poll())):
            for descriptor in ready:
                worker = sockets.get(descriptor) or sentinels[descriptor]
                if worker.ended or take(pipeline, worker):
                    continue
                worker.ended = True
                poller.unregister(worker.socket)
                poller.unregister(worker.process.sentinel)
                pipeline.arrivals.put(None)
    finally:
        if not pipeline.stopped:  # this thread failed, and a consumer must not wait for it
            for worker in workers:
                worker.ended = True
            pipeline.arrivals.put(None)


def take(pipeline: Waiting, worker: Worker) -> bool:
    """Take in one message. False if no more will come."""
    poller = select.poll()
    poller.register(worker.socket, select.POLLIN)
    received = worker.socket.receive() if poller.poll(0) else None
    if received is None:
        return False
    message, descriptor = received
    pipeline.arrived(message.step, worker.take(message, descriptor))
    return True
