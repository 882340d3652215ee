"""The store layer: write, open, random gather and its memory, for each workload."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from engines import DENSE, RAGGED, RAGGED_SHORT, Engine
from process import EngineError, Process
from session import Session, Team
from workloads import WORKLOADS, RaggedWorkload, Workload

from layers import draws

OPENINGS = 5
ENGINES = {"dense": DENSE, "ragged": RAGGED, "ragged_short": RAGGED_SHORT}


def run(session: Session) -> None:
    for workload in session.workloads(WORKLOADS):
        engines = session.engines(ENGINES[workload.kind])
        session.say(f"store, {workload.name}: {workload.count:,} records of {workload.record_bytes:,} bytes")
        with session.scratch() as truth:
            workload.write_truth(truth)
            with session.team("store", workload.name, engines, truth) as team:
                measure(session, team, workload, truth)


def measure(session: Session, team: Team, workload: Workload | RaggedWorkload, truth: Path) -> None:
    plan = session.plan
    written = write_rounds(team)
    # What is still on its way to the disk would be in the way of what comes next.
    os.sync()
    opened = [team.ask_all("open") for _ in range(OPENINGS)]
    file = truth / "draws"
    length, batch = workload.count, plan.batch
    first = draws.write(file, length, batch, draws.FEWEST_BATCHES, seed=1)
    team.ask_all("check", batch=batch, batches=draws.FEWEST_BATCHES, draws=first)
    trials = team.ask_all("measure", batch=batch, batches=draws.FEWEST_BATCHES, draws=first)
    counts = {name: draws.batches_for(median(trial), plan.seconds) for name, trial in trials.items()}
    rounds = gather_rounds(team, file, length, batch, counts)
    memory = gather_memory(session, workload.name, list(team.processes), truth)
    for process in team.processes:
        engine, name = process.engine, process.engine.name
        figures = written.get(name, written.get(engine.reads or "", []))
        line: dict[str, Any] = {
            "layer": "store",
            "workload": workload.name,
            "engine": name,
            "role": engine.role,
            "version": process.version,
            "records": length,
            "bytes": workload.nbytes,
            "batch": batch,
            "batch_bytes": batch * workload.nbytes / length,
            "stored_bytes": figures[-1]["bytes"] if figures else None,
            "write_seconds": [] if engine.reads else [figure["seconds"] for figure in figures],
            "durable_seconds": [] if engine.reads else [figure["durable_seconds"] for figure in figures],
            "open_seconds": [answers[name]["seconds"] for answers in opened],
            "rounds": rounds[name],
            "peak_bytes": memory.get(name),
        }
        session.write(kind="result", **line)
        rate = line["batch_bytes"] / 2**20 / median(line["rounds"])
        session.say(f"  {name:<30}{median(line['rounds']) * 1e6:>12,.1f} us a batch{rate:>12,.0f} MiB/s")


def write_rounds(team: Team) -> dict[str, list[dict[str, Any]]]:
    """Each engine writes its store in turn; one that takes long does so once. Engines that read another's store write none."""
    plan = team.session.plan
    written: dict[str, list[dict[str, Any]]] = {}
    for number in range(plan.writes):
        for process in team.turns(number):
            name = process.engine.name
            slow = name in written and written[name][-1]["durable_seconds"] > plan.write_seconds
            if process.engine.reads or slow:
                continue
            done = team.ask(process, "write")
            if done is not None:
                written.setdefault(name, []).append(done)
    return written


def gather_rounds(team: Team, file: Path, length: int, batch: int, counts: dict[str, int]) -> dict[str, list[float]]:
    """Rounds in which each engine has its turn on the same indices; the median seconds a batch of each round."""
    rounds: dict[str, list[float]] = {name: [] for name in counts}
    for number in range(team.session.plan.rounds):
        drawn = draws.write(file, length, batch, max(counts.values(), default=0), seed=100 + number)
        for process in team.turns(number):
            name = process.engine.name
            times = team.ask(process, "measure", batch=batch, batches=counts[name], draws=drawn)
            if times is not None:
                rounds[name].append(median(times))
    return rounds


def gather_memory(session: Session, workload: str, processes: Sequence[Process], truth: Path) -> dict[str, int]:
    """Peak anonymous memory of a gather loop by engine, each in a fresh process."""
    found: dict[str, int] = {}
    for process in processes:
        engine: Engine = process.engine
        if engine.role == "limit":
            continue
        try:
            fresh = Process("store", engine, process.path, truth, session.out.with_suffix(".log"))
        except EngineError as error:
            session.skip("memory", workload, engine, error)
            continue
        try:
            found[engine.name] = fresh.ask("memory", batch=session.plan.batch)["peak_bytes"]
        except EngineError as error:
            session.skip("memory", workload, engine, error)
        finally:
            fresh.end()
    return found
