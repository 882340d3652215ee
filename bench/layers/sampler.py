"""The sampler layer: index batches of a space of a million."""

from __future__ import annotations

from statistics import median

from engines import SAMPLERS
from session import Session, Team

LENGTH = 1_000_000
BATCHES = (256, 1_024, 8_192)
MODES = ("iid", "cyclic", "sequential")
CHECKED = 8
TRIAL = 50
SHARE = 0.25
"""Of a store's share of a round: a loop of draws is steady."""


def run(session: Session) -> None:
    with session.scratch() as truth, session.team("sampler", "", session.engines(SAMPLERS), truth) as team:
        offered = team.ask_all("modes")
        for mode in MODES:
            taking_part = {name for name, modes in offered.items() if mode in modes}
            for batch in BATCHES:
                measure(session, team, taking_part, mode, batch)


def measure(session: Session, team: Team, taking_part: set[str], mode: str, batch: int) -> None:
    plan = session.plan
    rounds: dict[str, list[float]] = {name: [] for name in taking_part}
    counts: dict[str, int] = {}
    for process in team.turns(0):
        name = process.engine.name
        if name not in taking_part:
            continue
        for op in ("open", "check"):
            extra = {"batches": CHECKED} if op == "check" else {}
            team.ask(process, op, mode=mode, length=LENGTH, batch=batch, **extra)
        trial = team.ask(process, "measure", batches=TRIAL)
        if trial is not None:
            counts[name] = max(TRIAL, int(SHARE * plan.seconds / trial))
    for number in range(plan.rounds):
        for process in team.turns(number):
            name = process.engine.name
            if name in counts:
                seconds = team.ask(process, "measure", batches=counts[name])
                if seconds is not None:
                    rounds[name].append(seconds)
    for process in team.processes:
        name = process.engine.name
        if name not in counts:
            continue
        session.write(
            kind="result",
            layer="sampler",
            workload=mode,
            engine=name,
            role=process.engine.role,
            version=process.version,
            batch=batch,
            rounds=rounds[name],
        )
        session.say(f"sampler, {mode:<12}{batch:>7,}  {name:<22}{median(rounds[name]) * 1e6:>10,.2f} us a batch")
