"""The anonymous memory of this process: what its code allocated, without files that are mapped."""

from __future__ import annotations

import threading
from pathlib import Path

INTERVAL = 0.001


def anonymous() -> int:
    """Bytes, memory that is shared without a file included."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon", "RssShmem")))


class Peak:
    """The most that was used at any moment, looked at each millisecond and whenever `look` is called."""

    def __init__(self) -> None:
        self.bytes = anonymous()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def look(self) -> None:
        self.bytes = max(self.bytes, anonymous())

    def _watch(self) -> None:
        while not self._over.wait(INTERVAL):
            self.look()

    def stop(self) -> int:
        self._over.set()
        self._thread.join()
        return self.bytes
