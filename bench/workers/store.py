"""The store layer: writing, opening, random gathers, their memory."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import truth

from workers import disk
from workers.memory import Peak, anonymous

CHECK_SECONDS = 30.0
MEMORY_SECONDS = 2.0
MEMORY_BATCHES = 200


class StoreWorker:
    def __init__(self, engine: Any, start: dict[str, Any]) -> None:
        self.engine, self.codec, self.opening = engine, start["codec"], start["opening"]
        self.path = Path(start["path"])
        self.truth = truth.load(Path(start["truth"]))
        self.store: Any = None

    def write(self) -> dict[str, float]:
        """Seconds until the engine says that it is done, and until all files are on the disk as well.

        What an engine's `prepare` makes of the records is there before: it is what a program would have that writes them.
        """
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)
        prepare = getattr(self.engine, "prepare", None)
        records = self.truth.records if prepare is None else prepare(self.truth.records)
        started = time.perf_counter()
        self.engine.write(self.path, records, self.codec)
        seconds = time.perf_counter() - started
        disk.sync(self.path)
        durable = time.perf_counter() - started
        return {"seconds": seconds, "durable_seconds": durable, "bytes": disk.allocated(self.path)}

    def open(self) -> dict[str, float]:
        self.close()
        started = time.perf_counter()
        self.store = self.engine.open_store(self.path, **self.opening)
        return {"seconds": time.perf_counter() - started}

    def check(self, batch: int, batches: int, draws: str, whole: bool = True) -> dict[str, int]:
        """Every record once in order (which also warms the page cache), then random batches: all equal the truth.

        An engine so slow that half a minute does not do for all records is checked on those until then.
        """
        end = time.perf_counter() + CHECK_SECONDS
        for start in range(0, len(self.truth) if whole else 0, batch):
            self.compare(np.arange(start, min(start + batch, len(self.truth))))
            if time.perf_counter() > end:
                break
        for indices in drawn(draws, batch, batches):
            self.compare(indices)
        return {"records": len(self.truth)}

    def compare(self, indices: npt.NDArray[Any]) -> None:
        self.truth.check(indices, self.engine.gather(self.store, indices))

    def measure(self, batch: int, batches: int, draws: str) -> list[float]:
        """Seconds of each of `batches` random gathers. The result of a gather is dropped before the next."""
        if self.store is None:
            self.open()
        gather, store = self.engine.gather, self.store
        times = []
        for indices in drawn(draws, batch, batches):
            started = time.perf_counter()
            gather(store, indices)
            times.append(time.perf_counter() - started)
        return times

    def memory(self, batch: int) -> dict[str, int]:
        """Anonymous memory at the most while batches are gathered one after another, beyond what there was before opening."""
        before = anonymous()
        peak = Peak()
        self.open()
        rng = np.random.default_rng(3)
        started, result = time.perf_counter(), None
        for _ in range(MEMORY_BATCHES):
            result = self.engine.gather(self.store, rng.integers(0, len(self.truth), batch))
            peak.look()
            if time.perf_counter() - started > MEMORY_SECONDS:
                break
        del result
        return {"peak_bytes": peak.stop() - before}

    def drop_cache(self) -> None:
        self.close()
        disk.drop_cache(self.path)

    def read_bytes(self) -> int:
        return disk.read_bytes()

    def close(self) -> None:
        if self.store is not None:
            self.engine.close(self.store)
            self.store = None


def drawn(file: str, batch: int, batches: int) -> npt.NDArray[np.int64]:
    """The first `batches` batches of the indices that all engines get, (batches, batch)."""
    return np.fromfile(file, "<i8", batch * batches).reshape(batches, batch)
