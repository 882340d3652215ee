"""Where we lose: every peer that was faster than what of ours does the same, and every target missed."""

from __future__ import annotations

from collections.abc import Iterator

from results import MIB, Result, Results
from targets import checks

NOISE = 1.03
"""A peer that is ahead by less is not said to be."""


def lost(results: Results) -> str:
    lines = [*gathers(results), *writes(results), *others(results)]
    missed = [
        f"- target missed: {check.what}: {check.found:.2f} times {check.beside}, not {check.want:.2f}"
        for check in checks(results)
        if check.found is not None and check.found < check.want
    ]
    return "\n".join([*lines, *missed]) or "In this run nowhere."


def counterpart(peer: str, workload: str) -> str:
    """Ours that does what the peer does: the same codec, and lists for lists."""
    codec = "zstd_dict" if "zstd_dict" in peer else "zstd" if "zstd" in peer else "raw"
    if not workload.startswith("ragged"):
        return f"loaderx {codec}"
    return f"loaderx {'packed' if 'packed' in peer else 'list'} {codec}"


def pairs(results: Results) -> Iterator[tuple[Result, Result]]:
    for peer in results.select("store", role="peer"):
        ours = results.find("store", peer.workload, counterpart(peer.engine, peer.workload))
        if ours:
            yield ours, peer


def gathers(results: Results) -> Iterator[str]:
    for ours, peer in pairs(results):
        times = peer.speed_beside(ours)
        if times > NOISE:
            yield f"- gather, {peer.workload}: {peer.engine} is {times:.2f} times as fast as {ours.engine}"


def writes(results: Results) -> Iterator[str]:
    for ours, peer in pairs(results):
        if ours.durable_seconds and peer.durable_seconds:
            times = peer.write_beside(ours)
            if times > NOISE:
                yield f"- write, {peer.workload}: {peer.engine} is {times:.2f} times as fast as {ours.engine}"
        if ours.stored_bytes and peer.stored_bytes and peer.stored_bytes * NOISE < ours.stored_bytes:
            sizes = f"{peer.stored_bytes / MIB:,.0f} MiB, not {ours.stored_bytes / MIB:,.0f}"
            yield f"- space, {peer.workload}: {peer.engine} takes {sizes} as {ours.engine}"


def others(results: Results) -> Iterator[str]:
    for layer in ("cold", "sampler", "loader"):
        for peer in results.select(layer, role="peer"):
            ours = results.find(layer, peer.workload, own_name(layer, peer), batch=peer.batch)
            if ours and peer.speed_beside(ours) > NOISE:
                times = f"{peer.speed_beside(ours):.2f} times as fast as {ours.engine}"
                yield f"- {layer}, {peer.workload}, batch {peer.batch:,}: {peer.engine} is {times}"


def own_name(layer: str, peer: Result) -> str:
    """The engine of this project that is to be compared with a peer."""
    if layer == "sampler":
        return "loaderx"
    if peer.workload.endswith("augment"):
        return f"loaderx, {'processes' if 'torch' in peer.engine else 'threads'}"
    return f"loaderx {'zstd' if 'zstd' in peer.engine else 'raw'}"
