"""`loaderx split SRC DST NAME=SHARE ...`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from loaderx.commands.options import Commands
from loaderx.commands.rewriting import INDEX, add_rewriting, index_of, keywords, tell
from loaderx.progress import ProgressLine
from loaderx.rewriting import split


def add(commands: Commands) -> None:
    """Tell the parser."""
    parser = commands.add_parser(
        "split",
        help="write each record of a store into one of several",
        description="Write each record of a store into one of several new ones: loaderx split SRC DST train=0.9 val=0.1",
    )
    parser.add_argument("src", type=Path, metavar="SRC", help="folder of the store, or of several streams")
    parser.add_argument("dst", type=Path, metavar="DST", help="folder of the parts; there must be nothing yet")
    parser.add_argument(
        "parts",
        metavar="NAME=SHARE",
        nargs="+",
        help=f"the parts, all by fractions that add up to 1, or all by numbers of records, or all by indices: {INDEX}",
    )
    parser.add_argument("--seed", type=int, default=42, help="seed of the shuffle (%(default)s)")
    parser.add_argument("--no-shuffle", action="store_true", help="take stretches, in the order of the parts")
    add_rewriting(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, progress: ProgressLine | None) -> None:
    """Split, and say what came of it."""
    parts = parts_of(options.parts)
    done = split(options.src, options.dst, parts, options.seed, not options.no_shuffle, **keywords(options, progress))
    if progress:
        tell(options.dst, [options.src], done)


def parts_of(texts: list[str]) -> dict[str, Any]:
    """`train=0.9` and its like as a mapping. ValueError for what is none."""
    parts: dict[str, Any] = {}
    for text in texts:
        name, equals, share = text.partition("=")
        if not equals or name in parts:
            raise ValueError(f"parts: expected each as NAME=SHARE, and each name once, found {text!r}")
        parts[name] = share_of(share)
    return parts


def share_of(text: str) -> Any:
    """A number of records, a fraction, or indices."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    try:
        return index_of(text)
    except ValueError as error:
        raise ValueError(f"parts: expected a fraction such as 0.9, a number of records, or an {error}") from None
