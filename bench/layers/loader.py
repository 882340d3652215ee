"""The loader layer: batches of data and label streams end to end, with the identity and with a transform in Python."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from engines import AUGMENTED, LOADERS, Engine
from process import EngineError, Process
from session import Session, Team
from workloads import AUGMENTED_WORKLOAD, LOADED, Workload

CHECKED = 4
WARM = 12
"""More than any loader makes ahead."""
FEWEST_BATCHES = 20
MOST_BATCHES = 1_000
OPENINGS = 5


def run(session: Session) -> None:
    for workload in session.workloads(LOADED):
        compare(session, workload, workload.name, LOADERS)
    for workload in session.workloads([AUGMENTED_WORKLOAD]):
        compare(session, workload, f"{workload.name}, augment", AUGMENTED)


def compare(session: Session, workload: Workload, name: str, engines: Sequence[Engine]) -> None:
    session.say(f"loader, {name}: {workload.count:,} records of {workload.record_bytes:,} bytes")
    with session.scratch() as truth:
        workload.write_truth(truth)
        with session.team("loader", name, session.engines(engines), truth) as team:
            measure(session, team, workload, name)


def measure(session: Session, team: Team, workload: Workload, name: str) -> None:
    plan = session.plan
    for process in list(team.processes):
        if not process.engine.reads:
            team.ask(process, "write")
    team.ask_all("open", batch=plan.batch)
    team.ask_all("check", batch=plan.batch, batches=CHECKED)
    trials = team.ask_all("measure", batches=CHECKED, warm=WARM)
    share = 2 * plan.seconds
    counts = {engine: int(min(MOST_BATCHES, max(FEWEST_BATCHES, share / trial))) for engine, trial in trials.items()}
    rounds: dict[str, list[float]] = {engine: [] for engine in counts}
    for number in range(plan.rounds):
        for process in team.turns(number):
            engine = process.engine.name
            seconds = team.ask(process, "measure", batches=counts[engine], warm=WARM)
            if seconds is not None:
                rounds[engine].append(seconds)
    team.ask_all("close")
    firsts = [team.ask_all("first", batch=plan.batch) for _ in range(OPENINGS)]
    for process in list(team.processes):
        engine = process.engine.name
        session.write(
            kind="result",
            layer="loader",
            workload=name,
            engine=engine,
            role=process.engine.role,
            version=process.version,
            batch=plan.batch,
            batch_bytes=plan.batch * workload.record_bytes,
            rounds=rounds[engine],
            first_seconds=[first[engine] for first in firsts if engine in first],
            peak_bytes=memory(session, name, process),
        )
        session.say(f"  {engine:<30}{1 / median(rounds[engine]):>10,.1f} batches a second")


def memory(session: Session, workload: str, process: Process) -> int | None:
    """Peak anonymous memory, in a fresh process."""
    engine = process.engine
    try:
        fresh = Process("loader", engine, process.path, session.folder / "truth", session.out.with_suffix(".log"))
    except EngineError as error:
        session.skip("memory", workload, engine, error)
        return None
    try:
        peak: int = fresh.ask("memory", batch=session.plan.batch)["peak_bytes"]
        return peak
    except EngineError as error:
        session.skip("memory", workload, engine, error)
        return None
    finally:
        fresh.end()
