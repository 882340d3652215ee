"""The JSON lines of a run, and what is read out of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

MIB = 1 << 20


@dataclass(frozen=True)
class Result:
    """One engine on one workload of one layer."""

    line: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.line[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def seconds(self) -> float:
        """A batch, the median of the rounds."""
        return float(median(self.rounds))

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles of the rounds."""
        if len(self.rounds) < 2:
            return self.seconds, self.seconds
        low, _, high = quantiles(self.rounds, n=4, method="inclusive")
        return low, high

    @property
    def rate(self) -> float:
        """MiB/s."""
        return float(self.batch_bytes) / MIB / self.seconds

    def write_rate(self, durable: bool = True) -> float | None:
        """MiB/s until the engine says that it is done, or until all is on the disk as well."""
        seconds = self.durable_seconds if durable else self.write_seconds
        return float(self.bytes / MIB / median(seconds)) if seconds else None

    def speed_beside(self, other: Result) -> float:
        """How many times as fast: the median over rounds, each of which ran side by side."""
        return float(median(theirs / ours for ours, theirs in zip(self.rounds, other.rounds, strict=False)))

    def write_beside(self, other: Result) -> float:
        """How many times as fast it wrote, all being on the disk."""
        pairs = zip(self.durable_seconds, other.durable_seconds, strict=False)
        return float(median(theirs / ours for ours, theirs in pairs))


class Results:
    def __init__(self, file: Path) -> None:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        of_kind = {
            kind: [line for line in lines if line["kind"] == kind] for kind in ("machine", "plan", "skipped", "result")
        }
        self.machine: dict[str, str] = without_kind(of_kind["machine"][0])
        self.plan: dict[str, Any] = without_kind(of_kind["plan"][0])
        self.skipped: list[dict[str, str]] = of_kind["skipped"]
        self.all = [Result(line) for line in of_kind["result"]]

    def select(self, layer: str, workload: str | None = None, **fields: Any) -> list[Result]:
        return [
            result
            for result in self.all
            if result.layer == layer
            and workload in (None, result.workload)
            and all(result.line[name] == value for name, value in fields.items())
        ]

    def find(self, layer: str, workload: str, engine: str, **fields: Any) -> Result | None:
        return next(iter(self.select(layer, workload, engine=engine, **fields)), None)

    def workloads(self, layer: str) -> list[str]:
        return list(dict.fromkeys(result.workload for result in self.select(layer)))

    def engines(self, layer: str, workloads: Sequence[str]) -> list[str]:
        found = (result.engine for result in self.select(layer) if result.workload in workloads)
        return list(dict.fromkeys(found))


def without_kind(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name != "kind"}
