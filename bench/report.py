"""Puts the tables and charts of a run into `docs/performance.md`.

    python bench/report.py build/bench/all.jsonl

What lies between the markers `<!-- bench:NAME -->` and `<!-- /bench:NAME -->` is replaced; all other text is written by hand.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import charts
import losses
import tables
from results import Results

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGE = "performance.md"
FIGURES = "performance.jsonl"
"""What the page is made of, beside it."""
PARTS: dict[str, Callable[[Results], str]] = {
    "machine": tables.machine,
    "targets": tables.targets,
    "losses": losses.lost,
    "overview": tables.overview,
    "stores": tables.stores,
    "cold": tables.cold,
    "samplers": tables.samplers,
    "loaders": tables.loaders,
    "conversions": tables.conversions,
    "versions": tables.versions,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Tables and charts of a run for docs/performance.md.")
    parser.add_argument("figures", type=Path, nargs="?", default=ROOT / "build" / "bench" / "all.jsonl")
    parser.add_argument("--into", type=Path, default=DOCS, help="where page and charts go (default: docs)")
    options = parser.parse_args()
    results = Results(options.figures)
    page = (DOCS / PAGE).read_text()
    for name, part in PARTS.items():
        page = replaced(page, name, part(results))
    made = charts.draw(results, options.into / "charts")
    (options.into / PAGE).write_text(page)
    if options.figures.resolve() != (options.into / FIGURES).resolve():
        shutil.copyfile(options.figures, options.into / FIGURES)
    print(f"{options.into / PAGE}, and in {options.into / 'charts'}: {', '.join(made)}")


def replaced(page: str, name: str, text: str) -> str:
    """The page with `text` between the markers of `name`, which must be there once."""
    begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    new, count = pattern.subn(lambda _: f"{begin}\n{text}\n{end}", page)
    if count != 1:
        raise SystemExit(f"expected the markers of {name!r} once in the page, found them {count} times")
    return new


if __name__ == "__main__":
    main()
