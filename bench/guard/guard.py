"""Count the instructions of the hot paths and compare them with `baseline.txt`.

    python bench/guard/guard.py            fails if any case takes clearly more instructions than the baseline
    python bench/guard/guard.py --accept   makes what is measured now the baseline

Counts are valgrind's, so neither a busy machine nor a faster one changes them. What does: another compiler or C library
(some percent), and another set of processor features, which has its own part of the baseline.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BASELINE = HERE / "baseline.txt"
# One build counts the same to the instruction, whatever else the machine does. This is the room for another compiler or C library.
TOLERANCE = 0.10

HEAD = """\
# Instructions of each case under callgrind, by architecture and processor features. Written by `make guard-accept`.
"""


def read(text: str) -> dict[str, dict[str, int]]:
    """A baseline's cases and counts, by machine."""
    machines: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        name, _, count = line.partition(" ")
        if name.startswith("["):
            machines[name.strip("[]")] = {}
        elif name and not name.startswith("#"):
            machines[list(machines)[-1]][name] = int(count)
    return machines


def write(machines: Mapping[str, Mapping[str, int]]) -> str:
    """The text that `read` reads."""
    parts = [HEAD]
    for machine, counts in sorted(machines.items()):
        parts.append(f"\n[{machine}]\n" + "".join(f"{case} {count}\n" for case, count in counts.items()))
    return "".join(parts)


def compare(baseline: Mapping[str, int], counts: Mapping[str, int]) -> tuple[list[str], bool]:
    """A line for each case, and whether all of them may pass."""
    lines, good = [], True
    for case in [*counts, *(case for case in baseline if case not in counts)]:
        before, now = baseline.get(case), counts.get(case)
        if before is None or now is None:
            verdict = "FAILED: not in the baseline" if before is None else "FAILED: not measured"
            good = False
        elif now > before * (1 + TOLERANCE):
            verdict, good = f"FAILED: {now / before - 1:+.1%}", False
        elif now < before * (1 - TOLERANCE):
            verdict = f"better: {now / before - 1:+.1%}; accept it, or a later loss of as much goes unnoticed"
        else:
            verdict = f"{now / before - 1:+.1%}"
        lines.append(f"{case:<24} {before or 0:>12,} {now or 0:>12,}  {verdict}")
    return lines, good


def build() -> Path:
    """The counted program."""
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "guard"], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "release" / "guard"


def under_callgrind(program: Path, argument: str) -> tuple[str, int]:
    """What the program prints, and the instructions inside `measured`."""
    if not shutil.which("valgrind"):
        raise SystemExit("the guard needs valgrind (apt-get install valgrind)")
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=guard::measured*"]
    # One processor, so that the store starts no threads: instructions are then counted in one place.
    if shutil.which("taskset"):
        first = min(os.sched_getaffinity(0))
        command = ["taskset", "-c", str(first), *command]
    done = subprocess.run([*command, str(program), argument], capture_output=True, text=True, check=False)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or collected is None:
        raise SystemExit(f"{argument} failed under valgrind:\n{done.stdout}{done.stderr}")
    return done.stdout.strip(), int(collected[1])


def measure() -> tuple[str, dict[str, int]]:
    """The machine as valgrind shows it, and the count of each case."""
    program = build()
    machine, _ = under_callgrind(program, "machine")
    cases = subprocess.run([str(program), "list"], capture_output=True, text=True, check=True).stdout.split()
    counts = {case: under_callgrind(program, case)[1] for case in cases}
    if not all(counts.values()):
        raise SystemExit(f"nothing was counted: {counts}")
    return machine, counts


def main() -> None:
    """Compare, or accept."""
    parser = argparse.ArgumentParser(description="Guard the instruction counts of the hot paths.")
    parser.add_argument("--accept", action="store_true", help="make what is measured now the baseline")
    accept = parser.parse_args().accept
    machine, counts = measure()
    machines = read(BASELINE.read_text()) if BASELINE.exists() else {}
    lines, good = compare(machines.get(machine, {}), counts)
    print(f"instructions on {machine}: baseline, now", *lines, sep="\n")
    if accept:
        BASELINE.write_text(write({**machines, machine: counts}))
        print(f"accepted: {BASELINE.relative_to(ROOT)} is to be committed, with the reason")
    elif not good:
        sys.exit("The guard failed. If the loss is meant, or the figures are new, run: make guard-accept")


if __name__ == "__main__":
    main()
