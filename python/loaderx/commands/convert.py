"""`loaderx convert SRC ... DST`."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import Any

from loaderx.commands.options import Commands, add_quiet
from loaderx.converters import convert
from loaderx.converters.finding import formats
from loaderx.converters.source import Format
from loaderx.progress import ProgressLine
from loaderx.zrecord import CODECS

INTERRUPTED = "interrupted; what was converted so far is kept, and the same command goes on from there"

TRAINED = "zstd_dict"
HERE = [name for name in CODECS if name != TRAINED]


def add(commands: Commands) -> None:
    """Tell the parser."""
    known = formats().values()
    parser = commands.add_parser(
        "convert",
        help="convert files of another format to a store",
        description="Convert files of another format to a store, or to a folder of streams. A conversion that is cut goes on when the same "
        "command is given again.",
        epilog="formats:\n" + "\n".join(f"  {form.name:<14} {form.title}{needing(form)}" for form in known),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("src", type=Path, nargs="+", metavar="SRC", help="file, folder, or several of them in order")
    parser.add_argument("dst", type=Path, metavar="DST", help="folder of the store; there must be nothing yet")
    parser.add_argument(
        "--format", choices=[form.name for form in known], metavar="FORMAT", help="what SRC is; else what is found"
    )
    parser.add_argument("--streams", type=pairs, help="which streams, in order: 'image,label' or 'image=jpg,label=cls'")
    parser.add_argument(
        "--codec", type=codec, default="zstd", help="codec, or one a stream: 'raw' or 'image=raw,label=zstd'"
    )
    parser.add_argument("--level", type=int, help="zstd level")
    parser.add_argument(
        "--option",
        type=option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of the format (docs/convert.md), written as in Python: 'size=(224, 224)'",
    )
    parser.add_argument("--workers", type=int, metavar="N", help="threads that read; else one a processor")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and write nothing")
    parser.add_argument("--check", action="store_true", help="in the end read both again, and compare them")
    parser.add_argument("--restart", action="store_true", help="don't go on with a conversion that was cut, begin anew")
    add_quiet(parser)
    parser.set_defaults(run=run, interrupted=INTERRUPTED)


def needing(form: Format) -> str:
    """The package that a format needs, as its line of the help has it."""
    return f" (needs {form.needs})" if form.needs else ""


def pairs(text: str) -> dict[str, str]:
    """`a=b,c` as {"a": "b", "c": "c"}."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = part.partition("=")
        if name in found or "=" in value or (separator and not value):
            raise argparse.ArgumentTypeError(f"expected NAME or NAME=VALUE, and each name once, found {text!r}")
        found[name] = value or name
    return found


def codec(text: str) -> str | dict[str, str]:
    """`raw` as it is; `image=raw` as {"image": "raw"}."""
    codecs = pairs(text) if "=" in text else {"": text}
    if TRAINED in codecs.values():
        raise argparse.ArgumentTypeError(
            f"{TRAINED!r} needs a dictionary, which is trained on a store: convert to 'raw', then loaderx recode SRC DST --codec {TRAINED}"
        )
    for one in codecs.values():
        if one not in CODECS:
            raise argparse.ArgumentTypeError(f"expected one of {', '.join(HERE)}, found {one!r}")
    return codecs if "=" in text else text


def option(text: str) -> tuple[str, Any]:
    """`size=(224, 224)` as ("size", (224, 224)); what is no Python literal is text."""
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def run(options: argparse.Namespace, progress: ProgressLine | None) -> None:
    """Convert, and say what came of it."""
    if progress:
        progress.phases = ("writing", "comparing") if options.check else ("writing",)
    conversion = convert(
        options.src if len(options.src) > 1 else options.src[0],
        options.dst,
        options.format,
        streams=options.streams,
        codec=options.codec,
        level=options.level,
        dry_run=options.dry_run,
        check=options.check,
        restart=options.restart,
        workers=options.workers,
        progress=progress,
        **dict(options.option),
    )
    if progress:
        progress.end()
    if progress or options.dry_run:
        print(conversion)
