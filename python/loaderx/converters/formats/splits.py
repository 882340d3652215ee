"""Splits of a data set, which lie in one directory and are not to become one store unnoticed.

What names a split is what the Hub of Hugging Face takes for one (https://huggingface.co/docs/hub/datasets-file-names-and-splits).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
SPLIT_OF = {word: split for split, words in SPLITS.items() for word in words}
WORD = re.compile(rf"(?<![^\W\d_])({'|'.join(SPLIT_OF)})(?![^\W\d_])", re.IGNORECASE)
"""One of these words, with no letter before or behind it."""


def one_split(path: Path, files: Sequence[Path]) -> list[Path]:
    """The files that were found at a path. ValueError where they are of several splits, by their names or those of their directories."""
    found: dict[str, list[Path]] = {}
    for file in files if path.is_dir() else ():
        split = split_of(file.relative_to(path).parts)
        if split is not None:
            found.setdefault(split, []).append(file)
    if len(found) > 1:
        told = ", ".join(f"{split} ({len(those):,}, such as {those[0].name})" for split, those in sorted(found.items()))
        raise ValueError(
            f"{path}: expected files of one split, found those of {told}; convert the files or the directory of one split, "
            "or list the files that one store is to hold"
        )
    return list(files)


def split_of(parts: Sequence[str]) -> str | None:
    """The split that the name of a file says, or that of the directory nearest to it. None if none does."""
    words = (WORD.findall(part) for part in reversed(parts))
    return next((SPLIT_OF[some[-1].lower()] for some in words if some), None)
