"""`loaderx select SRC DST INDEX`."""

from __future__ import annotations

import argparse
from pathlib import Path

from loaderx.commands.options import Commands
from loaderx.commands.rewriting import INDEX, add_rewriting, index_of, keywords, tell
from loaderx.progress import ProgressLine
from loaderx.rewriting import select


def add(commands: Commands) -> None:
    """Tell the parser."""
    parser = commands.add_parser(
        "select",
        help="write some records of a store as a new one",
        description="Write the selected records, in the order given, as a new store; of several streams the same of each.",
    )
    parser.add_argument("src", type=Path, metavar="SRC", help="folder of the store, or of several streams")
    parser.add_argument("dst", type=Path, metavar="DST", help="folder of the new one; there must be nothing yet")
    parser.add_argument("index", metavar="INDEX", help=f"{INDEX}; put -- before one that begins with a minus")
    add_rewriting(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, progress: ProgressLine | None) -> None:
    """Select, and say what came of it."""
    done = select(options.src, options.dst, index_of(options.index), **keywords(options, progress))
    if progress:
        tell(options.dst, [options.src], done)
