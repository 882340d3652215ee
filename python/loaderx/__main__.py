"""The command: `loaderx migrate OLD NEW` and `loaderx export STORE PATH`, or `python -m loaderx ...`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from loaderx import CODECS, DenseDataset, MSDataset, RaggedDataset, Zrecord, ZrecordError, __version__, export, migrate
from loaderx._core import Store
from loaderx.dataset import schema as schemas
from loaderx.generations.exporting import FORMATS

KINDS = {"dense": DenseDataset, "ragged": RaggedDataset}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one subcommand. SystemExit with a message where it fails."""
    parser = argparse.ArgumentParser(prog="loaderx", description="Work on stores of loaderx.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_migrate(commands)
    add_export(commands)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
    except (OSError, TypeError, ValueError, ZrecordError) as error:
        raise SystemExit(f"loaderx: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("loaderx: interrupted; nothing is left of what was begun") from None


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_migrate(commands: Commands) -> None:
    """`loaderx migrate`."""
    parser = commands.add_parser(
        "migrate",
        help="rewrite a store of loaderx 0.5 to 1.4",
        description="Rewrite a store of loaderx 0.5 to 1.4 as a new one, and compare the two. The old one is only read.",
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="folder of the old store, or of several streams")
    parser.add_argument("new", type=Path, metavar="NEW", help="folder of the new one; there must be nothing yet")
    add_encoding(parser)
    parser.add_argument("--dtype", help="what the records are where the old schema doesn't say, such as '<f4'")
    parser.add_argument("--item-shape", type=shape, help="the shape of a record, such as 28,28, where it doesn't say")
    parser.set_defaults(run=run_migrate)


def add_export(commands: Commands) -> None:
    """`loaderx export`."""
    parser = commands.add_parser(
        "export",
        help="copy a store to the form of loaderx 1.5",
        description="Write a copy of a store that loaderx 1.5 opens, ragged ones included, and compare the two.",
    )
    parser.add_argument("store", type=Path, metavar="STORE", help="folder of the store, or of several streams")
    parser.add_argument("path", type=Path, metavar="PATH", help="folder of the copy; there must be nothing yet")
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="whose form (%(default)s)")
    add_encoding(parser)
    parser.set_defaults(run=run_export)


def add_encoding(parser: argparse.ArgumentParser) -> None:
    """What both commands have."""
    parser.add_argument("--codec", choices=list(CODECS), help="codec of the new store; else that of the old one")
    parser.add_argument("--level", type=int, help="zstd level of the new store")
    parser.add_argument("--quiet", action="store_true", help="tell nothing but errors")


def shape(text: str) -> tuple[int, ...]:
    """`28,28` as a shape; nothing is the shape of a scalar."""
    return tuple(int(dim) for dim in text.split(",") if dim.strip())


def run_migrate(options: argparse.Namespace) -> None:
    """Migrate, and say what came of it."""
    progress = None if options.quiet else Progress()
    migrate(
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


def run_export(options: argparse.Namespace) -> None:
    """Export, and say what came of it."""
    progress = None if options.quiet else Progress()
    export(options.store, options.path, options.format, codec=options.codec, level=options.level, progress=progress)
    if progress:
        print(f"{described(options.path)}: compared with {options.store}")


def described(path: Path) -> str:
    """The store at `path` in a few words."""
    if not Store.exists(path):
        with MSDataset(path, read_only=True) as streams:
            return repr(streams)
    if not (path / schemas.FILE).exists():
        with Zrecord(path, read_only=True) as store:
            return repr(store)
    with KINDS[schemas.read(path).kind](path, read_only=True) as dataset:
        return repr(dataset)


class Progress:
    """How far it is, in one line that is written over, or a line for each tenth where the output is no terminal."""

    def __init__(self) -> None:
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        """Tell it, if there is something new to tell."""
        terminal = sys.stderr.isatty()
        percent = 100 * done // total if total else 100
        if not terminal:
            percent -= percent % 10
        if percent == self._shown:
            return
        self._shown = percent
        what = "writing" if 2 * done < total else "comparing"
        end = "\r" if terminal and done < total else "\n"
        print(f"{what}: {percent:3} %", file=sys.stderr, end=end, flush=True)


if __name__ == "__main__":
    main()
