"""The bench: stores, cold reads, samplers and loaders side by side, as `docs/performance.md` describes.

    python bench/run.py                          everything (`make bench`)
    python bench/run.py store --workload token2k --engine loaderx --engine limit --quick
    python bench/run.py --check                  tiny sizes: does it run, are all answers right? (`make bench-check`)

Compare only within one run, and only on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import plan
import targets
from layers import LAYERS
from loaderx.bench.machine import describe
from results import Results
from session import Session
from workloads import COLD, CONVERTED, WORKLOADS

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    options = arguments().parse_args()
    chosen = plan.CHECK if options.check else plan.QUICK if options.quick else plan.FULL
    out = options.out or options.work / f"{name_of(options)}.jsonl"
    # The figures of the run before stay until there are new ones.
    unfinished = out.with_suffix(".unfinished")
    out.parent.mkdir(parents=True, exist_ok=True)
    for old in (unfinished, out.with_suffix(".log")):
        old.unlink(missing_ok=True)
    session = Session(
        chosen,
        options.work / "stores",
        unfinished,
        engine_filters=options.engine or (),
        workload_filters=options.workload or (),
        far=options.peers == "all",
    )
    machine = describe()
    session.write(kind="machine", **machine)
    session.write(kind="plan", **chosen.describe())
    session.say("\n".join(f"{name:<11}{value}" for name, value in machine.items()))
    session.say(f"{'plan':<11}{chosen.name}: batch {chosen.batch}, medians of {chosen.rounds} interleaved rounds\n")
    for layer in LAYERS if options.layer == "all" else [options.layer]:
        LAYERS[layer](session)
    unfinished.replace(out)
    if not options.check:
        session.say("")
        targets.show(Results(out), unmeasured=options.layer == "all")
    session.say(f"\nFigures: {out}")
    if session.failures:
        raise SystemExit("These failed and must not:\n  " + "\n  ".join(session.failures))
    session.say("Every answer was right.")


def name_of(options: argparse.Namespace) -> str:
    """The file of figures: a part of a run is never mistaken for the whole."""
    name: str = "check" if options.check else options.layer
    return f"{name}-part" if options.engine or options.workload else name


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="loaderx beside other stores, samplers and loaders.")
    parser.add_argument("layer", nargs="?", default="all", choices=["all", *LAYERS], help="default: all")
    parser.add_argument("--engine", action="append", help="only engines whose name has this in it (may repeat)")
    names = [workload.name for workload in (*WORKLOADS, *COLD, *CONVERTED)]
    parser.add_argument("--workload", action="append", choices=names, help="only this (may repeat)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument(
        "--check", action="store_true", help="tiny sizes, to see that everything runs and answers right"
    )
    parser.add_argument(
        "--peers", choices=["near", "all"], default="all", help="near: only engines that need hardly any fetching"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench", help="where stores and figures go")
    part = "WORK/LAYER.jsonl, LAYER-part.jsonl with --engine or --workload"
    parser.add_argument("--out", type=Path, help=f"the file of figures (JSON lines); default: {part}")
    return parser


if __name__ == "__main__":
    main()
