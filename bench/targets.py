"""The targets of speed, and what a run found of them.

python bench/targets.py build/bench/all.jsonl
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from results import MIB, Result, Results

DENSE = ("image256k", "vision147k", "patch12k", "token2k")
MEMORY_BATCHES, MEMORY_BYTES = 3, 32 * MIB
FIRST_SECONDS = 0.05
OPEN_SECONDS = 0.001
PREFETCH, LOADER_BYTES = 4, 64 * MIB
"""The default of `prefetch_size`, and what a loader may take beside its batches."""


@dataclass(frozen=True)
class Check:
    """One target: how many times as fast (or how small a part), at least."""

    what: str
    beside: str
    want: float
    found: float | None
    """None: something was left out, so that nothing can be said."""

    @property
    def verdict(self) -> str:
        if self.found is None:
            return "not measured"
        return "met" if self.found >= self.want else "MISSED"


def checks(results: Results) -> Iterator[Check]:
    """Every target, in the order of the issue that set them."""
    yield from raw_gathers(results)
    yield from scalars(results)
    yield from compressed(results)
    yield from writes(results)
    yield from samplers(results)
    yield from cold(results)
    yield memory(results)
    yield from ragged(results)
    yield from loaders(results)
    yield from conversions(results)


def beside(results: Results, layer: str, workload: str, own: str, other: str, **fields: int) -> float | None:
    ours, theirs = (results.find(layer, workload, engine, **fields) for engine in (own, other))
    return ours.speed_beside(theirs) if ours and theirs else None


def beside_best(results: Results, workload: str, own: str, others: Sequence[str] | None = None) -> float | None:
    """Beside the fastest peer, or the fastest of `others`; all of these must be there."""
    ours = results.find("store", workload, own)
    peers = [peer for peer in results.select("store", workload, role="peer") if others is None or peer.engine in others]
    if ours is None or not peers or (others is not None and len(peers) < len(others)):
        return None
    return min(ours.speed_beside(peer) for peer in peers)


def raw_gathers(results: Results) -> Iterator[Check]:
    def gather(workload: str, other: str, want: float) -> Check:
        found = beside(results, "store", workload, "loaderx raw", other)
        return Check(f"raw gather, {workload}", other, want, found)

    for workload in ("image256k", "vision147k"):
        found = beside_best(results, workload, "loaderx raw")
        yield Check(f"raw gather, {workload}", "the best peer", 2.2, found)
        yield gather(workload, "limit raw", 0.8)
    for workload, times in (("patch12k", 2.5), ("token2k", 5.0)):
        yield gather(workload, "npy, memory-mapped", 1.2)
        yield gather(workload, "loaderx 1.5.7 raw", times)
        yield gather(workload, "limit raw", 0.8)


def scalars(results: Results) -> Iterator[Check]:
    for engine, want in (("loaderx raw unchecked", 1.0), ("loaderx raw", 0.5)):
        found = beside(results, "store", "label8", engine, "npy, memory-mapped")
        yield Check(f"scalars, {engine}", "npy, memory-mapped", want, found)


def compressed(results: Results) -> Iterator[Check]:
    for workload in (*DENSE, "label8"):
        for other, want in (("loaderx 1.5.7 zstd", 1.5), ("limit zstd", 0.9)):
            found = beside(results, "store", workload, "loaderx zstd", other)
            yield Check(f"zstd gather, {workload}", other, want, found)
    for workload in DENSE:
        found = beside(results, "store", workload, "loaderx zstd_dict", "loaderx 1.5.7 zstd_dict")
        yield Check(f"zstd_dict gather, {workload}", "loaderx 1.5.7 zstd_dict", 1.3, found)


def writes(results: Results) -> Iterator[Check]:
    def written(workload: str, codec: str, other: str, want: float) -> Check:
        ours, theirs = (results.find("store", workload, engine) for engine in (f"loaderx {codec}", other))
        found = ours.write_beside(theirs) if ours and theirs else None
        return Check(f"{codec} write, {workload}", other, want, found)

    for workload in (*DENSE, "label8"):
        yield written(workload, "zstd", "loaderx 1.5.7 zstd", 1.8)
        yield written(workload, "zstd", "limit zstd", 0.9)
    for workload in (*DENSE, "label8"):
        yield written(workload, "raw", "loaderx 1.5.7 raw", 1.0)
        yield written(workload, "raw", "limit raw", 0.8)


def samplers(results: Results) -> Iterator[Check]:
    for batch, want in ((8192, 2.0), (256, 1.0)):
        for mode in ("iid", "cyclic", "sequential"):
            found = beside(results, "sampler", mode, "loaderx", "loaderx 2.8.19", batch=batch)
            yield Check(f"sampler, {mode}, {batch:,}", "loaderx 2.8.19", want, found)


def cold(results: Results) -> Iterator[Check]:
    """Twice as fast, or as fast as the disk is, where it is not twice as fast as npy."""
    for workload in ("cold2k", "cold12k", "cold147k"):
        ours = beside(results, "cold", workload, "loaderx raw", "npy, memory-mapped")
        limit = beside(results, "cold", workload, "limit cold", "npy, memory-mapped")
        want = min(2.0, limit) if limit else 2.0
        yield Check(f"{workload}", "npy, memory-mapped", want, ours)


def memory(results: Results) -> Check:
    """The part of what is allowed that is left, at the engine of ours and the workload where it is least."""

    def allowed(result: Result) -> float:
        return float(MEMORY_BATCHES * result.batch_bytes + MEMORY_BYTES)

    own = [result for result in results.select("store", role="own") if result.peak_bytes is not None]
    found = min((allowed(result) / max(1, result.peak_bytes) for result in own), default=None)
    return Check("memory of gathers, the worst", "3 batches + 32 MiB", 1.0, found)


def ragged(results: Results) -> Iterator[Check]:
    for own, want, codec in (("packed raw", 8.0, "raw"), ("list raw", 4.0, "raw"), ("packed zstd", 3.0, "zstd")):
        others = (f"loaderx 1.5.7 list {codec}", f"loaderx 2.8.19 packed {codec}")
        found = beside_best(results, "ragged", f"loaderx {own}", others)
        yield Check(f"ragged, {own}", "the better of 1.5.7 and 2.8.19", want, found)
    for own in ("list raw", "packed raw", "list zstd", "packed zstd"):
        other = f"loaderx 1.5.7 list {own.split()[-1]}"
        ours, theirs = (results.find("store", "ragged_short", engine) for engine in (f"loaderx {own}", other))
        found = ours.write_beside(theirs) if ours and theirs else None
        yield Check(f"ragged append, short, {own}", other, 3.0, found)
    opened = [results.find("store", "ragged", f"loaderx list {codec}") for codec in ("raw", "zstd")]
    slowest = max((median(result.open_seconds) for result in opened if result), default=None)
    found = None if slowest is None else OPEN_SECONDS / slowest
    yield Check("opening 200,000 ragged records", "1 ms", 1.0, found)


def loaders(results: Results) -> Iterator[Check]:
    """Batches a second with the identity and with a transform, the first batch, and memory."""
    for workload, other, want in (("vision147k", "loaderx 2.8.19 raw", 3.0), ("token2k", "loaderx 1.5.7 raw", 4.0)):
        yield Check(f"loader, {workload}", other, want, beside(results, "loader", workload, "loaderx raw", other))
        found = beside(results, "loader", workload, "loaderx zstd", "loaderx zstd, gathers alone")
        yield Check(f"loader, {workload}, zstd", "the store's own gathers", 0.9, found)
    augment = "patch12k, augment"
    for own, other, want in (("processes", "torch, whole batches", 1.3), ("threads", "loaderx 1.5.7", 1.0)):
        found = beside(results, "loader", augment, f"loaderx, {own}", other)
        yield Check(f"loader with a transform, {own}", other, want, found)
    mine = [result for result in results.select("loader", role="own") if result.workload != augment]
    first = max((median(result.first_seconds) for result in mine), default=None)
    yield Check("first batch of a loader, the worst", "50 ms", 1.0, None if first is None else FIRST_SECONDS / first)
    allowed = [
        ((PREFETCH + 3) * result.batch_bytes + LOADER_BYTES) / max(1, result.peak_bytes)
        for result in mine
        if result.peak_bytes is not None
    ]
    yield Check("memory of loaders, the worst", "7 batches + 64 MiB", 1.0, min(allowed, default=None))


def conversions(results: Results) -> Iterator[Check]:
    """The part of the slower of reading and writing that a conversion has, in the median of rounds."""
    for result in results.select("convert"):
        rounds = zip(result.read_seconds, result.write_seconds, result.rounds, strict=True)
        found = median(max(read, write) / whole for read, write, whole in rounds)
        yield Check(f"convert, {result.workload}, {result.engine}", "the slower of reading, writing", 0.7, found)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python bench/targets.py FIGURES.jsonl")
    show(Results(Path(sys.argv[1])))


def show(results: Results, unmeasured: bool = True) -> None:
    """As a table; `unmeasured`: those too of which the run says nothing."""
    print(f"{'target':<36}{'beside':<34}{'at least':>9}{'found':>9}")
    for check in checks(results):
        if check.found is None and not unmeasured:
            continue
        found = "-" if check.found is None else f"{check.found:.2f} x"
        print(f"{check.what:<36}{check.beside:<34}{check.want:>7.2f} x{found:>9}  {check.verdict}")


if __name__ == "__main__":
    main()
