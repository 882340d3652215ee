"""The convert layer: reading a source, writing a store, and both at once, which is a conversion."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import truth

from workers import disk

CLASSES = 10


class ConvertWorker:
    """Where there is no such format, or no package for it, an operation says so."""

    def __init__(self, engine: Any, start: dict[str, Any]) -> None:
        self.engine = engine
        self.path = Path(start["path"])
        self.truth = truth.load(Path(start["truth"]))
        self.source: Any = None
        self.blocks: list[Any] = []

    def prepare(self, kind: str) -> dict[str, int]:
        """Write the source, as its own library does. `blocks` keeps what the frame reads of it."""
        write = getattr(self.engine, kind)
        shutil.rmtree(self.path, ignore_errors=True)
        (self.path / "source").mkdir(parents=True)
        records = self.truth.records
        if kind == "dense":
            self.source = write(self.path / "source", np.array(records), np.arange(len(records)) % CLASSES)
        else:
            self.source = write(self.path / "source", *map(np.array, records))
        disk.sync(self.path)
        self.blocks = list(self.read())
        return {"bytes": disk.allocated(self.path / "source")}

    def read(self) -> Any:
        """All blocks of the source, read ahead."""
        from loaderx.converters.ahead import ahead, processors
        from loaderx.converters.finding import found, opened

        with closing(opened(*found(self.source, None), {})) as source:
            names = [spec.name for spec in source.streams]
            with closing(ahead(source.parts(0, names), processors())) as blocks:
                yield from blocks

    def drop(self) -> None:
        """Read, and let go of it."""
        for _ in self.read():
            pass

    def write(self, codec: str) -> None:
        """Write what was read before to a new store, as a conversion does."""
        from loaderx.converters.encoding import Encoding
        from loaderx.converters.finding import found, opened
        from loaderx.converters.writing import Written

        with closing(opened(*found(self.source, None), {})) as source:
            specs = list(source.streams)
        encodings = {spec.name: Encoding(codec, None, None) for spec in specs}
        (self.path / "written").mkdir()
        with Written(self.path / "written" / "new", specs, encodings) as written:
            for block in self.blocks:
                written.append(block)

    def convert(self, codec: str) -> None:
        """The conversion."""
        from loaderx.converters import convert

        convert(self.source, self.path / "converted", codec=codec)

    def check(self, codec: str) -> dict[str, int]:
        """A conversion, and whether all that it wrote is what was there."""
        from loaderx.converters import convert
        from loaderx.dataset import DenseDataset, MSDataset, RaggedDataset

        done = convert(self.source, self.path / "converted", codec=codec)
        largest = max(done.streams, key=lambda spec: spec.dtype.itemsize * int(np.prod(spec.item_shape or (9,))))
        path = self.path / "converted" / largest.name
        with (DenseDataset if largest.kind == "dense" else RaggedDataset)(path, read_only=True) as ds:
            got = ds[:] if isinstance(ds, DenseDataset) else np.concatenate(ds[:])
        records = self.truth.records
        want = records[0] if isinstance(records, tuple) else records
        if got.tobytes() != want.tobytes() or got.dtype != want.dtype:
            raise ValueError(f"{codec}: the store does not hold what the source does")
        if len(done.streams) > 1:
            with MSDataset(self.path / "converted", read_only=True) as streams:
                numbers = [
                    name for name, one in streams.streams.items() if one.dtype.kind == "i" and name != largest.name
                ]
                for name in numbers:  # WebDataset has keys too
                    if not np.array_equal(streams[name][:], np.arange(len(records)) % CLASSES):
                        raise ValueError(f"{codec}: the labels are wrong")
        self.clean()
        return {"records": int(done.records or 0)}

    def measure(self, codec: str) -> dict[str, float]:
        """Seconds of reading alone, writing alone, and the conversion."""
        return {
            "read": self.timed(self.drop),
            "write": self.timed(lambda: self.write(codec)),
            "convert": self.timed(lambda: self.convert(codec)),
        }

    def timed(self, work: Callable[[], object]) -> float:
        started = time.perf_counter()
        work()
        seconds = time.perf_counter() - started
        self.clean()
        return seconds

    def clean(self) -> None:
        for name in ("written", "converted"):
            shutil.rmtree(self.path / name, ignore_errors=True)

    def close(self) -> None:
        self.blocks = []
