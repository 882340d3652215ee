"""`loaderx concat SRC SRC ... DST`."""

from __future__ import annotations

import argparse
from pathlib import Path

from loaderx.commands.options import Commands
from loaderx.commands.rewriting import add_rewriting, keywords, tell
from loaderx.progress import ProgressLine
from loaderx.rewriting import concat


def add(commands: Commands) -> None:
    """Tell the parser."""
    parser = commands.add_parser(
        "concat",
        help="write several stores as one",
        description="Write the records of several stores of one kind as a new store, one store behind another.",
    )
    parser.add_argument(
        "src", type=Path, metavar="SRC", nargs="+", help="folders of the stores, or each of several streams"
    )
    parser.add_argument("dst", type=Path, metavar="DST", help="folder of the new one; there must be nothing yet")
    add_rewriting(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, progress: ProgressLine | None) -> None:
    """Concatenate, and say what came of it."""
    done = concat(options.src, options.dst, **keywords(options, progress))
    if progress:
        tell(options.dst, options.src, done)
