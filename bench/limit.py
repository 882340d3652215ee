"""The limit engine's program, built when it is first needed."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "bench" / "limit" / "Cargo.toml"


@cache
def program() -> Path:
    """Where cargo put it: beside what the workspace builds."""
    target = {"CARGO_TARGET_DIR": os.environ.get("CARGO_TARGET_DIR") or str(ROOT / "target")}
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--message-format=json-render-diagnostics"]
    built = subprocess.run(
        [*command, "--manifest-path", str(MANIFEST)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | target,
    )
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    return next(Path(message["executable"]) for message in messages if message.get("executable"))
