"""The limit engine's program, built when it is first needed."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

MANIFEST = Path(__file__).resolve().parent / "limit" / "Cargo.toml"


@cache
def program() -> Path:
    """Where cargo put it."""
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--message-format=json-render-diagnostics"]
    built = subprocess.run([*command, "--manifest-path", str(MANIFEST)], stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    return next(Path(message["executable"]) for message in messages if message.get("executable"))
