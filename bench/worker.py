"""One engine in one process: a JSON request a line on stdin, a JSON reply a line on stdout (see `process.py`).

It runs in the environment of its engine, so it imports NumPy and nothing else that is not in this folder.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
# Behind what is installed: nothing here may stand in the way of a package that is measured.
sys.path.append(str(BENCH))

from workers import WORKERS  # noqa: E402


def load_engine(module: str) -> Any:
    """By path: the module `engines/dense/loaderx.py` must not stand in the way of the package `loaderx`."""
    spec = importlib.util.spec_from_file_location(f"engine_{Path(module).name}", BENCH / "engines" / f"{module}.py")
    assert spec
    assert spec.loader
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def main() -> None:
    start = json.loads(sys.argv[1])
    # Replies have the standard output to themselves, whatever an engine prints.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    worker: Any = None
    for line in sys.stdin:
        request = json.loads(line)
        op = request.pop("op")
        try:
            if op == "identify":
                engine = load_engine(start["module"])
                worker = WORKERS[start["layer"]](engine, start)
                done: Any = version(engine.PACKAGE)
            else:
                done = getattr(worker, op)(**request)
            reply = {"done": done}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=replies)
    # Engines that leave threads or processes behind end with this one.
    replies.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
