"""The plain baseline of speed: random gathers of this project, loaderx 1.5.7 and a memory-mapped .npy, side by side.

    python bench/baseline.py             about four minutes (`make bench-baseline`)
    python bench/baseline.py --check     tiny sizes: do the benchmark and every engine's answers still hold?

Compare only within one run, and only on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from engines import ENGINES
from machine import describe
from run import Plan, Result, run_workload
from workloads import WORKLOADS

ROOT = Path(__file__).resolve().parent.parent
BESIDE = "loaderx 1.5.7"
# Below this a batch is latency, and MiB/s says little.
SMALL_RECORD = 64


def main() -> None:
    parser = argparse.ArgumentParser(description="Random gathers beside loaderx 1.5.7 and a memory-mapped .npy.")
    parser.add_argument(
        "--check", action="store_true", help="tiny sizes, to see that everything runs and answers right"
    )
    parser.add_argument(
        "--workload", action="append", choices=[w.name for w in WORKLOADS], help="only this (may repeat)"
    )
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench", help="where stores and the report go")
    options = parser.parse_args()

    plan = Plan(batch=64, rounds=2, seconds=0.02) if options.check else Plan()
    machine = describe()
    print("\n".join(f"{name:<11}{value}" for name, value in machine.items()))
    print(f"{'plan':<11}batch {plan.batch}, page cache warm, median of the medians of {plan.rounds} interleaved rounds")
    print(f"{'beside':<11}the median over rounds of the ratio within a round\n")
    results: list[Result] = []
    for workload in WORKLOADS:
        if options.workload and workload.name not in options.workload:
            continue
        sized = workload.reduced(200) if options.check else workload
        done = run_workload(sized, ENGINES, plan, options.work / "stores")
        results += done
        print(f"{sized.name}: {sized.count:,} records of {sized.record_bytes:,} bytes")
        print_table(done, sized.record_bytes)
    report = options.work / ("check.json" if options.check else "baseline.json")
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text(
        json.dumps({"machine": machine, "plan": asdict(plan), "results": [asdict(r) for r in results]}, indent=1)
    )
    print(f"Every answer was right. Figures: {report}")


def print_table(results: Sequence[Result], record_bytes: int) -> None:
    unit = "us a batch" if record_bytes < SMALL_RECORD else "MiB/s"
    print(f"  {'engine':<22}{'gather, ' + unit:>20}{'beside 1.5.7':>14}{'write, MiB/s':>14}{'ratio':>8}")
    for result in results:
        rate = result.batch_seconds * 1e6 if record_bytes < SMALL_RECORD else result.gather_rate
        peer = published_twin(result, results)
        beside = f"{result.speed_beside(peer):.2f} x" if peer else ""
        print(f"  {result.engine:<22}{rate:>20,.1f}{beside:>14}{result.write_rate:>14,.0f}{result.ratio:>8.2f}")
    print(flush=True)


def published_twin(result: Result, results: Sequence[Result]) -> Result | None:
    """The published package's result in the same codec (raw for an engine without codecs)."""
    if result.engine.startswith(BESIDE):
        return None
    codec = "zstd" if result.engine.endswith("zstd") else "raw"
    return next((other for other in results if other.engine == f"{BESIDE} {codec}"), None)


if __name__ == "__main__":
    main()
