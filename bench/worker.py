"""One engine in one process: a JSON request a line on stdin, a JSON reply a line on stdout (see `run.py`)."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

ENGINES = Path(__file__).parent / "engines"


def load_engine(module: str) -> Any:
    """By path: the module `engines/loaderx.py` must not stand in the way of the package `loaderx`."""
    spec = importlib.util.spec_from_file_location(f"engine_{module}", ENGINES / f"{module}.py")
    assert spec
    assert spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class Worker:
    def __init__(self, module: str, codec: str, path: Path, truth: Path) -> None:
        self.engine, self.codec, self.path = load_engine(module), codec, path
        self.truth = np.load(truth, mmap_mode="r")
        self.store: Any = None

    def write(self) -> dict[str, float]:
        started = time.perf_counter()
        self.engine.write(self.path, self.truth, self.codec)
        seconds = time.perf_counter() - started
        # Allocated blocks, not file lengths: a store may preallocate sparse files.
        size = sum(file.stat().st_blocks * 512 for file in self.path.rglob("*") if file.is_file())
        self.store = self.engine.open_store(self.path)
        return {"seconds": seconds, "bytes": size}

    def check(self, batch: int, batches: int, seed: int) -> dict[str, int]:
        """Every record once in order (which also warms the page cache), then random batches: all equal the truth."""
        for start in range(0, len(self.truth), batch):
            self.compare(np.arange(start, min(start + batch, len(self.truth))))
        rng = np.random.default_rng(seed)
        for _ in range(batches):
            self.compare(rng.integers(0, len(self.truth), batch))
        return {"records": len(self.truth) + batch * batches}

    def compare(self, indices: npt.NDArray[Any]) -> None:
        got, want = self.engine.gather(self.store, indices), self.truth[indices]
        if got.dtype != want.dtype or got.shape != want.shape or got.tobytes() != want.tobytes():
            raise ValueError(f"a wrong answer for records {indices[0]}, {indices[1:2]}, ...")

    def measure(self, batch: int, batches: int, seed: int) -> list[float]:
        """Seconds of each of `batches` random gathers. The result of a gather is dropped before the next."""
        draws = np.random.default_rng(seed).integers(0, len(self.truth), (batches, batch))
        times = []
        for indices in draws:
            started = time.perf_counter()
            self.engine.gather(self.store, indices)
            times.append(time.perf_counter() - started)
        return times

    def close(self) -> None:
        if self.store is not None:
            self.engine.close(self.store)


def main() -> None:
    module, codec, path, truth = sys.argv[1:5]
    worker = Worker(module, codec, Path(path), Path(truth))
    # Replies have the standard output to themselves, whatever an engine prints.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            done = getattr(worker, request.pop("op"))(**request)
            print(json.dumps({"done": done}), file=replies)
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=replies)
    worker.close()


if __name__ == "__main__":
    main()
