"""The convert layer: conversions beside the slower of reading their source and writing their store."""

from __future__ import annotations

from importlib.util import find_spec
from statistics import median

from engines import Engine
from engines.sources import SOURCES
from process import UnavailableError
from session import Session, Team
from workloads import CONVERTED, RaggedWorkload, Workload

CODECS = ("raw", "zstd")
DENSE_ONLY = ("hdf5", "npy", "npz", "zarr")
"""Formats whose sources here hold dense records only."""


def run(session: Session) -> None:
    for workload in session.workloads(CONVERTED):
        session.say(f"convert, {workload.name}: {workload.count:,} records of {workload.record_bytes:,} bytes")
        with session.scratch() as truth:
            workload.write_truth(truth)
            for engine in sources(session, workload):
                # One after another: each keeps what it read in memory.
                with session.team("convert", workload.name, [engine], truth) as team:
                    measure(session, team, workload)


def sources(session: Session, workload: Workload | RaggedWorkload) -> list[Engine]:
    """Those of formats that `convert` knows, whose packages are here, and that hold such records."""
    from loaderx.converters.finding import formats

    known = formats()
    chosen = []
    for engine in session.engines(SOURCES):
        if engine.name not in known or (workload.kind == "ragged" and engine.name in DENSE_ONLY):
            continue
        needs = known[engine.name].needs
        if needs is None or find_spec(needs):
            chosen.append(engine)
        else:
            session.skip("convert", workload.name, engine, UnavailableError(f"{needs} is not installed"))
    return chosen


def measure(session: Session, team: Team, workload: Workload | RaggedWorkload) -> None:
    for process in team.turns(0):
        prepared = team.ask(process, "prepare", kind=workload.kind)
        for codec in CODECS if prepared is not None else ():
            checked = team.ask(process, "check", codec=codec)
            if checked is None:
                return
            rounds: list[dict[str, float]] = []
            for _ in range(session.plan.rounds):
                one = team.ask(process, "measure", codec=codec)
                if one is None:
                    return
                rounds.append(one)
            name = f"{process.engine.name} {codec}"
            times = {what: [one[what] for one in rounds] for what in ("read", "write", "convert")}
            session.write(
                kind="result",
                layer="convert",
                workload=workload.name,
                engine=name,
                role="own",
                version=process.version,
                batch=workload.count,
                batch_bytes=workload.nbytes,
                records=workload.count,
                bytes=workload.nbytes,
                source_bytes=prepared["bytes"],
                rounds=times["convert"],
                read_seconds=times["read"],
                write_seconds=times["write"],
            )
            part = median(max(r, w) / c for r, w, c in zip(*times.values(), strict=True))
            figures = "".join(f"{what} {median(seconds) * 1e3:>8,.0f} ms  " for what, seconds in times.items())
            session.say(f"  {name:<20}{figures}{part:>7.0%} of the slower one")
