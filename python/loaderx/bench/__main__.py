"""The command: `python -m loaderx.bench [STORE] [--json] [--seconds N]`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from loaderx.bench import example, show, store
from loaderx.bench.machine import describe
from loaderx.zrecord import ZrecordError

MOST_SECONDS = 3600


def seconds(text: str) -> float:
    """A time to measure for. ArgumentTypeError for one that never ends or never begins."""
    value = float(text)
    if not 0 < value <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"expected more than 0 and at most {MOST_SECONDS} seconds, found {text}")
    return value


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print. SystemExit with a message where there is nothing to measure."""
    parser = argparse.ArgumentParser(
        prog="python -m loaderx.bench",
        description="How fast a store is read on this machine, beside a plain copy of as many bytes. Nothing is changed.",
    )
    parser.add_argument("store", nargs="?", type=Path, help="folder of a store; without it, a few are made and removed")
    parser.add_argument("--json", action="store_true", help="figures as one JSON object")
    parser.add_argument(
        "--seconds", type=seconds, default=store.SECONDS, help="about how long to measure (%(default)s)"
    )
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        paths = [options.store] if options.store else stack.enter_context(example.stores())
        try:
            measured = [store.measure(path, options.seconds / len(paths)) for path in paths]
        except (OSError, ValueError, ZrecordError) as error:
            raise SystemExit(f"loaderx.bench: {error}") from None
    machine = describe()
    if options.json:
        print(json.dumps({"machine": machine, "stores": [show.as_json(one) for one in measured]}))
        return
    print("\n".join(f"{name:<11}{value}" for name, value in machine.items()))
    for one in measured:
        print("\n" + "\n".join(show.lines(one)))


if __name__ == "__main__":
    main()
