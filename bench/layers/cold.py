"""Cold reads: random batches of a store whose files were just dropped from the page cache, no record twice."""

from __future__ import annotations

import os
from pathlib import Path
from statistics import fmean, median

from engines import COLD
from session import Session, Team
from workloads import COLD as WORKLOADS
from workloads import Workload

from layers import draws

BATCHES = 8
CHECKED = 4


def run(session: Session) -> None:
    for workload in session.workloads(WORKLOADS):
        session.say(f"cold, {workload.name}: {workload.count:,} records of {workload.record_bytes:,} bytes")
        with session.scratch() as truth:
            workload.write_truth(truth)
            with session.team("cold", workload.name, session.engines(COLD), truth) as team:
                measure(session, team, workload, truth)


def measure(session: Session, team: Team, workload: Workload, truth: Path) -> None:
    batch = session.plan.batch
    batches = max(1, min(BATCHES, workload.count // batch))
    team.ask_all("write")
    os.sync()
    file = truth / "draws"
    team.ask_all("open")
    first = draws.write(file, workload.count, batch, CHECKED, seed=1)
    team.ask_all("check", batch=batch, batches=CHECKED, draws=first, whole=False)
    rounds: dict[str, list[float]] = {name: [] for name in team.names()}
    read: dict[str, list[float]] = {name: [] for name in team.names()}
    for number in range(session.plan.rounds):
        drawn = draws.write_once(file, workload.count, batch, batches, seed=100 + number)
        for process in team.turns(number):
            name = process.engine.name
            # A page that anyone has mapped stays in the cache: all give their files up.
            team.ask_all("drop_cache")
            before = team.ask(process, "read_bytes")
            times = team.ask(process, "measure", batch=batch, batches=batches, draws=drawn)
            after = team.ask(process, "read_bytes")
            if times is not None and after is not None:
                rounds[name].append(fmean(times))
                read[name].append((after - before) / batches)
    for process in team.processes:
        name = process.engine.name
        session.write(
            kind="result",
            layer="cold",
            workload=workload.name,
            engine=name,
            role=process.engine.role,
            version=process.version,
            batch=batch,
            batches=batches,
            batch_bytes=batch * workload.record_bytes,
            rounds=rounds[name],
            disk_bytes=read[name],
        )
        seconds = median(rounds[name])
        rate = batch * workload.record_bytes / 2**20 / seconds
        disk = median(read[name]) / 2**20
        session.say(f"  {name:<30}{seconds * 1e3:>10,.1f} ms a batch{rate:>10,.0f} MiB/s{disk:>10,.1f} MiB read")
