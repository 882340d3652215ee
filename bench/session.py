"""One run of the bench: its plan, which engines and workloads take part, and the JSON lines that it writes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from engines import Engine
from plan import Plan
from process import EngineError, Process, UnavailableError
from workloads import RaggedWorkload, Workload

Kind = TypeVar("Kind", bound="Workload | RaggedWorkload")


@dataclass
class Session:
    plan: Plan
    folder: Path
    """Stores go here for as long as they are needed."""
    out: Path
    """The file of JSON lines."""
    engine_filters: Sequence[str] = ()
    workload_filters: Sequence[str] = ()
    far: bool = True
    """Whether engines take part that must be fetched."""
    failures: list[str] = field(default_factory=list)
    """What must not fail, and did: engines of this project and the limits."""

    def write(self, **line: Any) -> None:
        with self.out.open("a") as file:
            print(json.dumps(line), file=file)

    def say(self, text: str) -> None:
        print(text, flush=True)

    def engines(self, engines: Iterable[Engine]) -> list[Engine]:
        """Those that take part, and those whose stores they read."""
        known = list(engines)
        chosen = [engine for engine in known if self.far or engine.near]
        chosen = [engine for engine in chosen if engine.codec not in self.plan.without]
        if self.engine_filters:
            chosen = [engine for engine in chosen if any(part in engine.name for part in self.engine_filters)]
        needed = {engine.reads for engine in chosen} | {engine.name for engine in chosen}
        return [engine for engine in known if engine.name in needed]

    def workloads(self, workloads: Iterable[Kind]) -> Iterator[Kind]:
        """Those that take part, cut short where the plan says so."""
        for workload in workloads:
            if not self.workload_filters or workload.name in self.workload_filters:
                yield replace(workload, count=self.plan.count(workload.count, workload.record_bytes))

    def skip(self, layer: str, workload: str, engine: Engine, reason: EngineError) -> None:
        self.say(f"  left out: {engine.name}: {reason}")
        self.write(kind="skipped", layer=layer, workload=workload, engine=engine.name, reason=str(reason))
        required = not isinstance(reason, UnavailableError) or bool(os.environ.get("LOADERX_REQUIRE_PEERS"))
        if engine.near and required:
            self.failures.append(f"{layer}, {workload}, {engine.name}: {reason}")

    @contextmanager
    def team(self, layer: str, workload: str, engines: Iterable[Engine], truth: Path) -> Iterator[Team]:
        """The engines, each in its process, without those that can't be had."""
        team = Team(self, layer, workload)
        try:
            for number, engine in enumerate(engines):
                try:
                    path = self.folder / f"store{number}"
                    shared = [process.path for process in team.processes if process.engine.name == engine.reads]
                    if engine.reads and not shared:
                        raise EngineError(f"there is no store of {engine.reads} to read")
                    log = self.out.with_suffix(".log")
                    team.processes.append(Process(layer, engine, shared[0] if shared else path, truth, log))
                except EngineError as error:
                    self.skip(layer, workload, engine, error)
            yield team
        finally:
            for process in team.processes:
                process.end()

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder for truth and stores, gone afterwards."""
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "truth").mkdir(parents=True)
        try:
            yield self.folder / "truth"
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


class Team:
    """Engines side by side. One that fails is left out from then on, and the run goes on."""

    def __init__(self, session: Session, layer: str, workload: str) -> None:
        self.session, self.layer, self.workload = session, layer, workload
        self.processes: list[Process] = []

    def ask(self, process: Process, op: str, **request: Any) -> Any:
        """The answer, None from an engine that fails, which is out then."""
        try:
            return process.ask(op, **request)
        except EngineError as error:
            self.session.skip(self.layer, self.workload, process.engine, error)
            self.processes.remove(process)
            process.end()
            return None

    def ask_all(self, op: str, **request: Any) -> dict[str, Any]:
        """The answers by engine, of those that did not fail."""
        answers = {process.engine.name: self.ask(process, op, **request) for process in list(self.processes)}
        return {name: answer for name, answer in answers.items() if name in self.names()}

    def names(self) -> set[str]:
        return {process.engine.name for process in self.processes}

    def turns(self, number: int) -> list[Process]:
        """The order of round `number`: another engine begins each time."""
        first = number % max(1, len(self.processes))
        return self.processes[first:] + self.processes[:first]
