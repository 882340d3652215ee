"""The commands of `loaderx`, one a file: `add` tells the parser about it, `run` does it.

`options.py` has the options that several have, `progress.py` the line that tells how far it is, `shown.py` stores in a few words.
"""

from loaderx.commands import convert, export, migrate

ALL = (convert, migrate, export)
"""In the order in which the help lists them."""

__all__ = ["ALL"]
