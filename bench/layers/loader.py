"""The loader layer: batches of data and label streams end to end, the transform being the identity."""

from __future__ import annotations

from statistics import median

from engines import LOADERS
from session import Session, Team
from workloads import LOADED, Workload

CHECKED = 4
WARM = 12
"""More than any loader makes ahead."""
FEWEST_BATCHES = 20
MOST_BATCHES = 1_000


def run(session: Session) -> None:
    for workload in session.workloads(LOADED):
        session.say(f"loader, {workload.name}: {workload.count:,} records of {workload.record_bytes:,} bytes")
        with session.scratch() as truth:
            workload.write_truth(truth)
            with session.team("loader", workload.name, session.engines(LOADERS), truth) as team:
                measure(session, team, workload)


def measure(session: Session, team: Team, workload: Workload) -> None:
    plan = session.plan
    team.ask_all("write")
    team.ask_all("open", batch=plan.batch)
    team.ask_all("check", batch=plan.batch, batches=CHECKED)
    trials = team.ask_all("measure", batches=CHECKED, warm=WARM)
    share = 2 * plan.seconds
    counts = {name: int(min(MOST_BATCHES, max(FEWEST_BATCHES, share / trial))) for name, trial in trials.items()}
    rounds: dict[str, list[float]] = {name: [] for name in counts}
    for number in range(plan.rounds):
        for process in team.turns(number):
            name = process.engine.name
            seconds = team.ask(process, "measure", batches=counts[name], warm=WARM)
            if seconds is not None:
                rounds[name].append(seconds)
    team.ask_all("close")
    for process in team.processes:
        name = process.engine.name
        session.write(
            kind="result",
            layer="loader",
            workload=workload.name,
            engine=name,
            role=process.engine.role,
            version=process.version,
            batch=plan.batch,
            batch_bytes=plan.batch * workload.record_bytes,
            rounds=rounds[name],
        )
        session.say(f"  {name:<30}{1 / median(rounds[name]):>10,.1f} batches a second")
