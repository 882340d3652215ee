"""`loaderx migrate OLD NEW`."""

from __future__ import annotations

import argparse
from pathlib import Path

from loaderx.commands.options import Commands, add_encoding, add_quiet
from loaderx.commands.shown import described
from loaderx.generations import migrate
from loaderx.progress import ProgressLine
from loaderx.utils.gain import told


def add(commands: Commands) -> None:
    """Tell the parser."""
    parser = commands.add_parser(
        "migrate",
        help="rewrite a store of loaderx 0.5 to 1.4",
        description="Rewrite a store of loaderx 0.5 to 1.4 as a new one, and compare the two. The old one is only read.",
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="folder of the old store, or of several streams")
    parser.add_argument("new", type=Path, metavar="NEW", help="folder of the new one; there must be nothing yet")
    add_encoding(parser)
    add_quiet(parser)
    parser.add_argument("--dtype", help="what the records are where the old schema doesn't say, such as '<f4'")
    parser.add_argument("--item-shape", type=shape, help="the shape of a record, such as 28,28, where it doesn't say")
    parser.set_defaults(run=run)


def shape(text: str) -> tuple[int, ...]:
    """`28,28` as a shape; nothing is the shape of a scalar."""
    return tuple(int(dim) for dim in text.split(",") if dim.strip())


def run(options: argparse.Namespace, progress: ProgressLine | None) -> None:
    """Migrate, and say what came of it."""
    done = migrate(
        options.old,
        options.new,
        options.codec,
        level=options.level,
        dtype=options.dtype,
        item_shape=options.item_shape,
        progress=progress,
    )
    if progress:
        print(f"{described(options.new)}: compared with {options.old}, which is as it was")
        for line in told(done.gains):
            print(line)
