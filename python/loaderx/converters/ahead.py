"""Reading ahead: parts are read by several threads, and come in their order."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from loaderx.converters.source import Block, Part


def ahead(parts: Iterator[Part], workers: int) -> Generator[Block, None, None]:
    """What each of `parts` reads, in order. At most `workers` + 1 blocks are being read or waiting at any time.

    Threads take turns with the iterator too, so that what it does itself is also done ahead. What it or a part raises comes at its turn,
    after all blocks before it. When this iterator ends or is closed, none of the threads is at work any more.
    """
    turn = threading.Lock()
    stopped = threading.Event()
    begun: deque[Future[Block | None]] = deque()
    untaken: deque[Future[Block | None]] = deque()

    def read_one() -> None:
        with turn:
            slot = untaken.popleft()
            part = None
            if not stopped.is_set():
                try:
                    part = next(parts, None)
                except BaseException as error:
                    stopped.set()
                    slot.set_exception(error)
                    return
        try:
            slot.set_result(None if part is None or stopped.is_set() else part())
        except BaseException as error:
            slot.set_exception(error)

    with ThreadPoolExecutor(workers, thread_name_prefix="loaderx-convert") as pool:
        try:
            while True:
                while len(begun) <= workers:
                    slot: Future[Block | None] = Future()
                    begun.append(slot)
                    untaken.append(slot)
                    pool.submit(read_one)
                block = begun.popleft().result()
                if block is None:
                    return
                yield block
        finally:
            stopped.set()


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
