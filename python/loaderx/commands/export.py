"""`loaderx export STORE PATH`."""

from __future__ import annotations

import argparse
from pathlib import Path

from loaderx.commands.options import Commands, add_encoding, add_quiet
from loaderx.commands.shown import described
from loaderx.generations import export
from loaderx.generations.exporting import FORMATS
from loaderx.progress import ProgressLine


def add(commands: Commands) -> None:
    """Tell the parser."""
    parser = commands.add_parser(
        "export",
        help="copy a store to the form of loaderx 1.5",
        description="Write a copy of a store that loaderx 1.5 opens, ragged ones included, and compare the two.",
    )
    parser.add_argument("store", type=Path, metavar="STORE", help="folder of the store, or of several streams")
    parser.add_argument("path", type=Path, metavar="PATH", help="folder of the copy; there must be nothing yet")
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="whose form (%(default)s)")
    add_encoding(parser)
    add_quiet(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, progress: ProgressLine | None) -> None:
    """Export, and say what came of it."""
    export(options.store, options.path, options.format, codec=options.codec, level=options.level, progress=progress)
    if progress:
        print(f"{described(options.path)}: compared with {options.store}")
