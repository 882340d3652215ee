"""What was measured, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from loaderx.bench.store import COPY, Measured
from loaderx.bench.timing import MIB, Figure


def lines(measured: Measured) -> Iterator[str]:
    """A table for people. The last column compares with a copy of as many bytes in the same rounds."""
    size = measured.records * measured.record_bytes / MIB
    yield f"{measured.path}: {measured.kind}, {measured.codec}, {measured.records:,} records, {size:,.1f} MiB"
    yield f"  {'':<30}{'batch':>7}{'us a batch':>13}{'quartiles':>24}{'MiB/s':>10}{'of a copy':>11}"
    for number, figure in enumerate(measured.figures):
        yield f"  {row(figure, copy_beside(measured.figures, number))}"


def copy_beside(figures: Sequence[Figure], number: int) -> Figure | None:
    """The copy in the same rounds, which is the next one; after the last one, that; None where no copy has that batch."""
    batch = figures[number].batch
    copies = [i for i, figure in enumerate(figures) if figure.what == COPY and figure.batch == batch]
    return figures[next((i for i in copies if i >= number), copies[-1])] if copies else None


def row(figure: Figure, copy: Figure | None) -> str:
    """One figure; `copy` is what it is compared with, if it moves records."""
    low, high = (f"{seconds * 1e6:,.1f}" for seconds in figure.quartiles)
    text = f"{figure.what:<30}{figure.batch or '':>7}{figure.seconds * 1e6:>13,.1f}{f'{low} - {high}':>24}"
    if not figure.batch or figure.what.startswith("sampler"):
        return text
    text += f"{figure.rate:>10,.0f}"
    return text if copy is None or figure.what == COPY else f"{text}{copy.seconds / figure.seconds:>11.1%}"


def as_json(measured: Measured) -> dict[str, Any]:
    """Everything, with the figures that the rounds come to."""
    figures = [asdict(figure) | {"seconds": figure.seconds} for figure in measured.figures]
    return asdict(measured) | {"figures": figures}
