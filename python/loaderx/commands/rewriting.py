"""What the commands share that write stores anew."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loaderx.commands.options import add_encoding, add_quiet
from loaderx.commands.shown import described
from loaderx.dataset.tiers import DICT_TIERS
from loaderx.progress import ProgressLine
from loaderx.rewriting import Rewritten
from loaderx.utils.gain import told

INDEX = (
    "records such as 0:1000, ::2 or 5,7,-1, or @FILE, a .npy file of indices or a mask, or a text of one index a line"
)


def add_rewriting(parser: argparse.ArgumentParser) -> None:
    """The options of all of them."""
    add_encoding(parser)
    parser.add_argument(
        "--dict-tier", choices=list(DICT_TIERS), help="train a new dictionary of this size for zstd_dict"
    )
    parser.add_argument("--no-compare", action="store_true", help="don't read both again and compare them in the end")
    add_quiet(parser)


def keywords(options: argparse.Namespace, progress: ProgressLine | None) -> dict[str, Any]:
    """What the functions take."""
    if progress and options.no_compare:
        progress.phases = ("writing",)
    return {
        "codec": options.codec,
        "level": options.level,
        "dict_tier": options.dict_tier,
        "progress": progress,
        "verify": not options.no_compare,
    }


def index_of(text: str) -> Any:
    """A slice, or a list or an array of integers. ValueError for what is none."""
    if text.startswith("@"):
        return from_file(Path(text[1:]))
    try:
        if ":" in text:
            return slice(*(int(part) if part.strip() else None for part in text.split(":")))
        return [int(part) for part in text.split(",") if part.strip()]
    except (TypeError, ValueError):
        raise ValueError(f"index: expected {INDEX}; found {text!r}") from None


def from_file(file: Path) -> Any:
    """The indices in a file."""
    if file.suffix == ".npy":
        return from_npy(file)
    try:
        return [int(line) for line in file.read_text(encoding="utf-8").split()]
    except ValueError as error:
        raise ValueError(f"{file}: expected one index a line: {error}") from None


def from_npy(file: Path) -> Any:
    """The array in a file of NumPy's. Not by `numpy.load`, which opens other things too, and recommends to trust them."""
    with file.open("rb") as stream:
        try:
            return np.lib.format.read_array(stream, allow_pickle=False)
        except ValueError as error:
            raise ValueError(f"{file}: expected a .npy file of indices or a mask: {error}") from error


def tell(path: Path, sources: Sequence[Path], done: Rewritten) -> None:
    """Say what was written, how large it is, and what dictionaries gain."""
    for part in done.parts or [""]:
        print(described(path / part))
    before = "what was read" if len(sources) > 1 else str(sources[0])
    print(f"{size([path])} in {path}; {size(sources)} in {before}, which is as it was")
    for line in told(done.gains):
        print(line)


def size(paths: Sequence[Path]) -> str:
    """The size of directories, each counted once."""
    return in_units(sum(bytes_in(path) for path in {path.resolve() for path in paths}))


def bytes_in(path: Path) -> int:
    """The bytes of all files below a directory."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def in_units(count: float) -> str:
    """Bytes, or KiB, MiB, GiB."""
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
