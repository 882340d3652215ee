"""Runs engines on a workload: one process each, answers checked before timing, rounds interleaved, medians."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from engines import Engine
from workloads import Workload

HERE = Path(__file__).resolve().parent
MIB = 1 << 20


class EngineError(Exception):
    """An engine failed or gave a wrong answer."""


@dataclass(frozen=True)
class Plan:
    batch: int = 256
    rounds: int = 7
    seconds: float = 0.7
    """Aim for one engine's share of one round."""


@dataclass(frozen=True)
class Result:
    workload: str
    engine: str
    ratio: float
    write_rate: float
    rounds: list[float]
    """Median seconds a batch, one a round."""
    batch_bytes: int

    @property
    def batch_seconds(self) -> float:
        return median(self.rounds)

    @property
    def gather_rate(self) -> float:
        return self.batch_bytes / MIB / self.batch_seconds

    def speed_beside(self, other: Result) -> float:
        """How many times as fast as `other`: the median over rounds, each of which ran side by side."""
        return median(theirs / ours for ours, theirs in zip(self.rounds, other.rounds, strict=True))


class Process:
    """An engine in its process."""

    def __init__(self, engine: Engine, path: Path, truth: Path) -> None:
        self.engine = engine
        command = [interpreter(engine), "-I", str(HERE / "worker.py")]
        command += [engine.module, engine.codec, str(path), str(truth)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin
        assert self._process.stdout
        self._requests, self._replies = self._process.stdin, self._process.stdout

    def ask(self, op: str, **request: Any) -> Any:
        print(json.dumps({"op": op, **request}), file=self._requests, flush=True)
        line = self._replies.readline()
        reply = json.loads(line) if line else {"error": f"its process ended with status {self._process.wait()}"}
        if "error" in reply:
            raise EngineError(f"{self.engine.name}: {op}: {reply['error']}")
        return reply["done"]

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.close()
        self._process.wait(timeout=60)
        self._replies.close()


def interpreter(engine: Engine) -> str:
    if engine.requirement is None:
        return sys.executable
    command = [sys.executable, str(HERE.parent / "scripts" / "peers.py"), engine.requirement]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def run_workload(workload: Workload, engines: Sequence[Engine], plan: Plan, folder: Path) -> list[Result]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        truth = write_truth(workload, folder / "truth.npy")
        with ExitStack() as stack:
            processes = [
                stack.enter_context(Process(engine, folder / f"store{i}", truth)) for i, engine in enumerate(engines)
            ]
            written = [process.ask("write") for process in processes]
            for process in processes:
                process.ask("check", batch=plan.batch, batches=4, seed=1)
            rounds = measure(processes, plan)
        nbytes = workload.count * workload.record_bytes
        return [
            Result(
                workload=workload.name,
                engine=engine.name,
                ratio=nbytes / wrote["bytes"],
                write_rate=nbytes / MIB / wrote["seconds"],
                rounds=times,
                batch_bytes=plan.batch * workload.record_bytes,
            )
            for engine, wrote, times in zip(engines, written, rounds, strict=True)
        ]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_truth(workload: Workload, path: Path) -> Path:
    np.save(path, np.concatenate(list(workload.blocks())))
    return path


def measure(processes: Sequence[Process], plan: Plan) -> list[list[float]]:
    """Rounds in which each engine has its turn, starting with another one each time, on the same indices."""
    batches = [batches_for(process, plan) for process in processes]
    rounds: list[list[float]] = [[] for _ in processes]
    for number in range(plan.rounds):
        for turn in range(len(processes)):
            i = (number + turn) % len(processes)
            times = processes[i].ask("measure", batch=plan.batch, batches=batches[i], seed=100 + number)
            rounds[i].append(median(times))
    return rounds


def batches_for(process: Process, plan: Plan) -> int:
    """How many batches fill this engine's share of a round (a trial, not counted)."""
    trial = median(process.ask("measure", batch=plan.batch, batches=5, seed=2))
    return int(min(2000, max(5, plan.seconds / max(trial, 1e-6))))
