"""Work of several threads that begins at one moment, is bounded in time, and fails as a whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

PATIENCE = 90.0
"""Seconds until threads that don't end count as hanging."""


def together(works: Sequence[Callable[[], object]], patience: float = PATIENCE) -> None:
    """Run each in a thread of its own, all at once. Raises what the first of them that failed raised, and if one hangs."""
    start = threading.Barrier(len(works), timeout=patience)
    failures: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            start.wait()
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    end = time.monotonic() + patience
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads), f"threads hang for {patience} s"
