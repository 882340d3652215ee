"""What ends a worker in the midst of a transform."""

from __future__ import annotations

import os
import select
import time

GRACE_SECONDS = 0.5
"""How long a transform may go on once the pipeline has ended."""

POLL_SECONDS = 0.5
"""How often to look whether the consumer lives, where the system doesn't tell."""


def watch(consumer: int, leash: int) -> None:
    """End this process when its pipeline has ended, a little later, or when the consumer is gone, at once.

    A child that the consumer forked has the other end of the leash, too, so the end of the leash alone would not do.
    """
    ended = select.poll()
    ended.register(leash, select.POLLIN)
    process: int | None = None
    try:
        if hasattr(os, "pidfd_open"):
            process = os.pidfd_open(consumer)
            ended.register(process, select.POLLIN)
    except ProcessLookupError:
        os._exit(0)
    except OSError:  # forbidden here
        process = None
    ready = ended.poll() if process is not None else []
    while not ready and lives(consumer):
        ready = ended.poll(POLL_SECONDS * 1000)
    if ready and process not in dict(ready):
        time.sleep(GRACE_SECONDS)
    os._exit(0)


def lives(process: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # not ours, but there
        return True
    return True
