"""The commands of `loaderx`, one a file: `add` tells the parser about it, `run` does it.

- `options.py`: the options that several have. `rewriting.py`: what those share that write stores anew.
- `shown.py`: stores in a few words.
"""

from loaderx.commands import concat, convert, export, migrate, recode, select, split

ALL = (convert, recode, concat, select, split, migrate, export)
"""In the order in which the help lists them."""

__all__ = ["ALL"]
