"""What the tests of frameworks share. Where a framework is missing its tests are skipped, but in `make test-frameworks` they fail."""

from __future__ import annotations

import importlib
import multiprocessing
import os
from typing import Any

import pytest


def framework(name: str) -> Any:
    """The module of that name; the calling test module is skipped where it is not installed."""
    if os.environ.get("LOADERX_REQUIRE_FRAMEWORKS") == "1":
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name} is not installed (make test-frameworks)")


def quick_processes() -> Any:
    """Forks of a server that has imported what ranks and workers need, once: importing torch takes seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.utils.data", "loaderx.dataset", "rank"])
    return context
