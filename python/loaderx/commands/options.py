"""Options that several commands have."""

from __future__ import annotations

import argparse
from typing import TypeAlias

from loaderx.zrecord import CODECS

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_encoding(parser: argparse.ArgumentParser) -> None:
    """How the records of the new store are encoded."""
    parser.add_argument("--codec", choices=list(CODECS), help="codec of the new store; else that of the old one")
    parser.add_argument("--level", type=int, help="zstd level of the new store")


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Whether it tells how far it is, and what came of it."""
    parser.add_argument("--quiet", action="store_true", help="tell nothing but errors")
