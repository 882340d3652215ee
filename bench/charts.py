"""PNG charts of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from results import Result, Results

COLOURS = {"own": "#1f77b4", "peer": "#b0b0b0", "limit": "#2ca02c"}
mpl.use("Agg")


def draw(results: Results, folder: Path) -> list[str]:
    """Write the charts that the figures are there for; the names of their files."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for layer, title in (
        ("store", "random gather, MiB/s"),
        ("cold", "cold random batches, MiB/s"),
        ("loader", "loader, batches a second"),
    ):
        workloads = results.workloads(layer)
        if workloads:
            bars(results, layer, workloads, title, folder / f"{layer}.png")
            made.append(f"{layer}.png")
    if results.workloads("sampler"):
        sampler_bars(results, folder / "sampler.png")
        made.append("sampler.png")
    return made


def value(result: Result) -> float:
    return 1 / result.seconds if result.layer == "loader" else result.rate


def bars(results: Results, layer: str, workloads: Sequence[str], title: str, file: Path) -> None:
    """One panel a workload, one bar an engine, the fastest on top."""
    panels = [sorted(results.select(layer, workload), key=value) for workload in workloads]
    draw_panels(panels, [f"{workload}: {title}" for workload in workloads], value, file)


def sampler_bars(results: Results, file: Path) -> None:
    """One panel a mode, at the largest batch."""
    largest = max(result.batch for result in results.select("sampler"))
    modes = results.workloads("sampler")
    panels = [sorted(results.select("sampler", mode, batch=largest), key=draws_a_second) for mode in modes]
    titles = [f"sampler, {mode}: million indices a second, batches of {largest:,}" for mode in modes]
    draw_panels(panels, titles, draws_a_second, file)


def draws_a_second(result: Result) -> float:
    return float(result.batch) / result.seconds / 1e6


def draw_panels(
    panels: Sequence[Sequence[Result]], titles: Sequence[str], height: Callable[[Result], float], file: Path
) -> None:
    """In two columns."""
    lines = -(-len(panels) // 2)
    most = [max(len(panel) for panel in panels[2 * line : 2 * line + 2]) + 2 for line in range(lines)]
    figure, axes = plt.subplots(lines, 2, figsize=(13, 0.24 * sum(most)), height_ratios=most, squeeze=False)
    for axis, panel, title in zip(axes.flat, panels, titles, strict=False):
        values = [height(result) for result in panel]
        colours = [COLOURS[result.role] for result in panel]
        placed = axis.barh([result.engine for result in panel], values, color=colours)
        axis.bar_label(placed, [f"{v:,.0f}" if v >= 10 else f"{v:,.1f}" for v in values], padding=3, fontsize=7)
        axis.set_title(title, fontsize=9, loc="left")
        axis.tick_params(labelsize=7)
        axis.margins(x=0.12)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes.flat[len(panels) :]:
        axis.set_axis_off()
    figure.tight_layout()
    figure.savefig(file, dpi=90, bbox_inches="tight")
    plt.close(figure)
