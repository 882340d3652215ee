"""`loaderx recode SRC DST`."""

from __future__ import annotations

import argparse
from pathlib import Path

from loaderx.commands.options import Commands
from loaderx.commands.rewriting import add_rewriting, keywords, tell
from loaderx.progress import ProgressLine
from loaderx.rewriting import recode


def add(commands: Commands) -> None:
    """Tell the parser."""
    parser = commands.add_parser(
        "recode",
        help="write a store anew with another codec, level or dictionary",
        description="Write a store anew with another codec, level or dictionary. The old one is only read.",
    )
    parser.add_argument("src", type=Path, metavar="SRC", help="folder of the store, or of several streams")
    parser.add_argument("dst", type=Path, metavar="DST", help="folder of the new one; there must be nothing yet")
    add_rewriting(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, progress: ProgressLine | None) -> None:
    """Recode, and say what came of it."""
    done = recode(options.src, options.dst, **keywords(options, progress))
    if progress:
        tell(options.dst, [options.src], done)
