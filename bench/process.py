"""An engine in its process, and the environment that it runs in."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import limit
from engines import Engine

HERE = Path(__file__).resolve().parent
PEERS = HERE.parent / "scripts" / "peers.py"


class EngineError(Exception):
    """An engine can't be had, failed or gave a wrong answer."""


class UnavailableError(EngineError):
    """What the engine needs can't be installed, which is a lack of network more often than not."""


class Process:
    """Answers requests; the log has what it prints otherwise."""

    def __init__(self, layer: str, engine: Engine, path: Path, truth: Path, log: Path) -> None:
        self.engine = engine
        self.path = path
        if engine.role == "limit" and engine.native:
            command = [str(limit.program()), engine.module, str(path), str(truth)]
        else:
            start = {"layer": layer, "module": engine.module, "codec": engine.codec, "opening": engine.opening}
            start |= {"path": str(path), "truth": str(truth)}
            # Isolated: neither the current folder nor PYTHONPATH decides what it imports.
            command = [interpreter(engine), "-I", str(HERE / "worker.py"), json.dumps(start)]
        with log.open("a") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self._process.stdin
        assert self._process.stdout
        self._requests, self._replies = self._process.stdin, self._process.stdout
        try:
            self.version: str = self.ask("identify")
        except EngineError:
            self.end()
            raise

    def ask(self, op: str, **request: Any) -> Any:
        with suppress(BrokenPipeError):
            print(json.dumps({"op": op, **request}), file=self._requests, flush=True)
        line = self._replies.readline()
        reply = json.loads(line) if line else {"error": f"its process ended with status {self._process.wait()}"}
        if "error" in reply:
            raise EngineError(f"{op}: {reply['error']}")
        return reply["done"]

    def end(self) -> None:
        with suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._replies.close()


def interpreter(engine: Engine) -> str:
    """The interpreter of the engine's environment, which is made if it is missing."""
    if not engine.requires:
        return sys.executable
    made = subprocess.run([sys.executable, str(PEERS), *engine.requires], capture_output=True, text=True)
    if made.returncode != 0:
        lines = made.stderr.strip().splitlines() or ["no reason given"]
        raise UnavailableError(lines[-1])
    return made.stdout.strip()
