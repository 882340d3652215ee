"""Markdown tables of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from results import MIB, Result, Results
from targets import checks

SMALL_BATCH = 1 * MIB
"""Below this a batch is latency: microseconds say more than MiB/s."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(engine: str, role: str) -> str:
    return {"own": f"**{engine}**", "limit": f"*{engine}*"}.get(role, engine)


def machine(results: Results) -> str:
    plan = results.plan
    rows = [[name, value] for name, value in results.machine.items()]
    rows.append(["run", f"{plan['name']}, batch {plan['batch']}, {plan['rounds']} rounds"])
    return table(["", ""], rows).replace("---:", "---")


def targets(results: Results) -> str:
    rows = []
    for check in checks(results):
        found = "-" if check.found is None else f"{check.found:.2f} x"
        verdict = f"**{check.verdict}**" if check.verdict == "MISSED" else check.verdict
        rows.append([check.what, check.beside, f"{check.want:.2f} x", found, verdict])
    return table(["target", "beside", "at least", "found", ""], rows)


def overview(results: Results) -> str:
    """Random gathers, MiB/s, every engine on every dense workload."""
    workloads = [workload for workload in results.workloads("store") if not workload.startswith("ragged")]
    rows = []
    for engine in results.engines("store", workloads):
        found = [results.find("store", workload, engine) for workload in workloads]
        role = next(result.role for result in found if result)
        rows.append([shown(engine, role), *("" if result is None else speed(result) for result in found)])
    units = [f"{workload}, {unit(results, workload)}" for workload in workloads]
    return table(["engine", *units], rows)


def unit(results: Results, workload: str) -> str:
    return "us" if results.select("store", workload)[0].batch_bytes < SMALL_BATCH / 4 else "MiB/s"


def speed(result: Result) -> str:
    return f"{result.seconds * 1e6:,.1f}" if result.batch_bytes < SMALL_BATCH / 4 else f"{result.rate:,.0f}"


def stores(results: Results) -> str:
    """A table a workload: everything that was measured of each engine."""
    parts = []
    for workload in results.workloads("store"):
        found = results.select("store", workload)
        best = min(
            (result for result in found if result.role == "peer"), key=lambda result: result.seconds, default=None
        )
        rows = [store_row(results, result, best) for result in found]
        first = found[0]
        parts.append(f"### {workload}\n\n{first.records:,} records, {first.bytes / first.records:,.0f} bytes each.\n")
        header = ["engine", "us a batch", "quartiles", "MiB/s", "beside the best peer", "of the limit"]
        header += ["write, MiB/s", "ratio", "open, ms", "memory, MiB"]
        parts.append(table(header, rows) + "\n")
    return "\n".join(parts).rstrip()


def store_row(results: Results, result: Result, best: Result | None) -> list[str]:
    low, high = result.spread
    codec = "zstd" if "zstd" in result.engine else "raw"
    limit = results.find("store", result.workload, f"limit {codec}")
    written = result.write_rate()
    opened = median(result.open_seconds) * 1e3
    is_limit = result.role == "limit"
    return [
        shown(result.engine, result.role),
        f"{result.seconds * 1e6:,.1f}",
        f"{low * 1e6:,.1f} - {high * 1e6:,.1f}",
        f"{result.rate:,.0f}",
        f"{result.speed_beside(best):.2f} x" if best else "",
        f"{result.speed_beside(limit):.0%}" if limit else "",
        f"{written:,.0f}" if written else "",
        f"{result.bytes / result.stored_bytes:.2f}" if result.stored_bytes else "",
        "" if is_limit else f"{opened:,.2f}",
        "" if result.peak_bytes is None else f"{result.peak_bytes / MIB:,.1f}",
    ]


def cold(results: Results) -> str:
    rows = []
    for workload in results.workloads("cold"):
        npy = results.find("cold", workload, "npy, memory-mapped")
        for result in results.select("cold", workload):
            low, high = result.spread
            row = [f"{workload}, {shown(result.engine, result.role)}", f"{result.seconds * 1e3:,.1f}"]
            row += [f"{low * 1e3:,.1f} - {high * 1e3:,.1f}", f"{result.rate:,.0f}"]
            row += [f"{median(result.disk_bytes) / MIB:,.1f}", f"{result.speed_beside(npy):.2f} x" if npy else ""]
            rows.append(row)
    return table(["", "ms a batch", "quartiles", "MiB/s", "read from disk, MiB a batch", "beside npy"], rows)


def samplers(results: Results) -> str:
    batches = sorted({result.batch for result in results.select("sampler")})
    rows = []
    for mode in results.workloads("sampler"):
        for engine in results.engines("sampler", [mode]):
            found = [results.find("sampler", mode, engine, batch=batch) for batch in batches]
            role = next(result.role for result in found if result)
            rows.append(
                [f"{mode}, {shown(engine, role)}", *("" if r is None else f"{r.seconds * 1e6:,.2f}" for r in found)]
            )
    return table(["us a batch", *(f"{batch:,}" for batch in batches)], rows)


def loaders(results: Results) -> str:
    workloads = results.workloads("loader")
    rows = []
    for engine in results.engines("loader", workloads):
        found = [results.find("loader", workload, engine) for workload in workloads]
        role = next(result.role for result in found if result)
        speeds = ["" if r is None else f"{1 / r.seconds:,.1f}" for r in found]
        firsts = ["" if r is None else f"{median(r.first_seconds) * 1e3:,.0f}" for r in found]
        memory = ["" if r is None or r.peak_bytes is None else f"{r.peak_bytes / MIB:,.0f}" for r in found]
        rows.append([shown(engine, role), *speeds, *firsts, *memory])
    kinds = [
        f"{workload}, {kind}"
        for kind in ("batches a second", "first batch, ms", "memory, MiB")
        for workload in workloads
    ]
    return table(["loader", *kinds], rows)


def conversions(results: Results) -> str:
    rows = []
    for result in results.select("convert"):
        low, high = result.spread
        alone = [f"{median(seconds) * 1e3:,.0f}" for seconds in (result.read_seconds, result.write_seconds)]
        rounds = zip(result.read_seconds, result.write_seconds, result.rounds, strict=True)
        part = median(max(read, write) / whole for read, write, whole in rounds)
        whole = [f"{result.seconds * 1e3:,.0f}", f"{low * 1e3:,.0f} - {high * 1e3:,.0f}", f"{result.rate:,.0f}"]
        rows.append([f"{result.workload}, {result.engine}", *alone, *whole, f"{part:.0%}"])
    header = ["", "read, ms", "write, ms", "convert, ms", "quartiles", "MiB/s", "of the slower one"]
    return table(header, rows)


def versions(results: Results) -> str:
    """What was measured, and what was left out and why."""
    known = {result.engine: result.version for result in results.all if result.role != "limit"}
    lines = ["Versions: " + ", ".join(f"{engine} {version}" for engine, version in sorted(known.items())) + "."]
    out = {(line["layer"], line["workload"], line["engine"]): line["reason"] for line in results.skipped}
    lines += [f"- left out: {', '.join(filter(None, key))}: {reason}" for key, reason in out.items()]
    if not out:
        lines.append("\nNothing was left out.")
    return "\n".join(lines)
