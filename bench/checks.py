"""What checking every record costs: gathers with verify="always" beside verify="never", in one run.

python bench/checks.py             about three minutes (`make bench-checks`)
python bench/checks.py --check     tiny sizes: does it run, are all answers right?
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from engines import Engine
from run import Plan, run_workload
from workloads import WORKLOADS

ROOT = Path(__file__).resolve().parent.parent
ENGINES = [
    Engine(f"{codec} {verify}", module, codec)
    for codec in ("raw", "zstd")
    for verify, module in (("always", "loaderx"), ("never", "loaderx_unchecked"))
]


def main() -> None:
    parser = argparse.ArgumentParser(description='Gathers with verify="always" beside verify="never".')
    parser.add_argument("--check", action="store_true", help="tiny sizes")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench", help="where stores go")
    options = parser.parse_args()
    plan = Plan(batch=64, rounds=2, seconds=0.02) if options.check else Plan(rounds=15, seconds=0.4)
    print(
        f"batch {plan.batch}, medians of {plan.rounds} interleaved rounds; cost: median within a round of always / never - 1"
    )
    print(f"{'workload':<12}{'codec':<7}{'always, us':>12}{'never, us':>12}{'cost':>9}")
    for workload in WORKLOADS:
        sized = workload.reduced(200) if options.check else workload
        results = run_workload(sized, ENGINES, plan, options.work / "stores")
        for always, never in zip(results[::2], results[1::2], strict=True):
            cost = median(a / b for a, b in zip(always.rounds, never.rounds, strict=True)) - 1
            times = "".join(f"{result.batch_seconds * 1e6:>12,.1f}" for result in (always, never))
            print(f"{sized.name:<12}{always.engine.split()[0]:<7}{times}{cost:>+9.1%}", flush=True)


if __name__ == "__main__":
    main()
